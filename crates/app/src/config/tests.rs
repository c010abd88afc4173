//! The policy file as operators meet it: what is read, what is refused, and how that is said.

use evenkeel_core::control::target::Target;
use evenkeel_core::sched::{Floor, Limit, Share};
use evenkeel_core::time::Span;
use evenkeel_engine::lease::Times;
use evenkeel_engine::policy::{
    Control, Depth, Discipline, Match, Meeting, Member, Method, Mode, Moves, NbdServer, Preference,
    Sharing, Takeover,
};
use evenkeel_io::built::Feature;
use proptest::prelude::*;

use super::*;

fn findings(text: &str) -> String {
    parse_all(text, "policy.toml").diagnostics.render(false)
}

/// A policy that is whole but for the lines of `extra`.
fn with(extra: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:10809\"]\n[[backend]]\nname = \"m\"\nmemory = true\n\
         [[export]]\nname = \"a\"\nsize = \"1 GiB\"\n{extra}"
    )
}

/// The example in the manual: the first block of TOML in docs/policy.md.
fn manual() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_manual_s_example_is_valid_and_means_what_its_comments_say() {
    use Discipline::{Baa, Edf, Mclock, Sfq};
    let policy = parse(&manual(), "docs/policy.md").unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(policy.mode, Mode::Enforce);
    let depth = policy.backends.iter().map(|backend| backend.scheduling.depth);
    assert!(depth.clone().any(|depth| matches!(depth, Depth::Adaptive { .. })));
    assert!(depth.clone().any(|depth| matches!(depth, Depth::Bytes(_))));
    assert!(policy.groups.iter().any(|group| matches!(group.sharing, Sharing::Hybrid { .. })));
    let matches: Vec<_> = policy.tenants.iter().flat_map(|tenant| &tenant.matches).collect();
    assert!(matches.iter().any(|way| matches!(way, Match::TlsName(_))));
    assert!(matches.iter().any(|way| matches!(way, Match::Peer { .. })));
    let of = |name: &str| {
        policy.backends.iter().find(|one| one.name == name).unwrap().scheduling.discipline
    };
    assert_eq!(["scratch", "mail", "shelf", "drive"].map(of), [Mclock, Edf, Baa, Sfq]);
}

/// A volume over two backends of memory, and what `extra` adds.
fn tiered(volume: &str, extra: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:10809\"]\n[[backend]]\nname = \"hdd\"\nmemory = true\n\
         [[backend]]\nname = \"ssd\"\nmemory = true\n[[backend]]\nname = \"v\"\n{volume}\
         [[export]]\nname = \"a\"\n{extra}"
    )
}

const TIERS: &str = "tiers = [{ backend = \"hdd\", size = \"2 GiB\" }, \
                     { backend = \"ssd\", size = \"1 GiB\" }]\n";

#[test]
fn a_volume_names_its_tiers_and_holds_the_exports_that_name_no_backend() {
    let policy = parse(&tiered(TIERS, ""), "p").unwrap_or_else(|found| panic!("{found}"));
    let (backend, volume) = policy.volumes().next().unwrap();
    assert_eq!((backend.scheduling.discipline, volume.moves), (Discipline::Baa, Moves::ByHeat));
    let fast = Member { backend: "ssd".into(), device: String::new(), size_bytes: Some(1 << 30) };
    assert_eq!((volume.extent_bytes, &volume.tiers[1]), (1 << 20, &fast));
    assert_eq!(policy.exports[0].backend, "v");
}

#[test]
fn what_a_volume_cannot_be_is_shown_where_it_is_written() {
    let hdd = "{ backend = \"hdd\", size = \"1 GiB\" }";
    let tiers = [
        (format!("{hdd}, \"sdd\""), "there is no backend \"sdd\""),
        (format!("{hdd}, {hdd}"), "a member of a volume already"),
        (format!("{hdd}, \"ssd\""), "memory without a size"),
        (format!("{hdd}, \"v\""), "is a volume itself"),
        (format!("{hdd}, 7"), "expected a member of a volume, found an integer"),
        (format!("{hdd}, {{ backend = \"ssd\", sise = \"1 GiB\" }}"), "unknown key `sise`"),
        (hdd.to_owned(), "a volume of one tier"),
    ];
    let tiers = tiers
        .map(|(tiers, found)| (format!("tiers = [{tiers}]\n"), "backend = \"v\"\n", found, 10));
    let others = [
        (format!("{TIERS}extent = \"3 MiB\"\n"), "", "extents of 3 MiB", 11),
        (format!("{TIERS}moves = \"haet\"\n"), "", "is not a way of moving", 11),
        (format!("{TIERS}depth = 4\n"), "", "`depth` on a volume", 11),
        (TIERS.to_owned(), "backend = \"hdd\"\n", "is a member of \"v\"", 13),
    ];
    for (volume, export, found, line) in tiers.into_iter().chain(others) {
        let shown = findings(&tiered(&volume, export));
        let is_shown = shown.contains(found) && shown.contains(&format!("policy.toml:{line}:"));
        assert!(is_shown && shown.contains("= help: "), "{volume}{export}\n{shown}");
    }
}

const CEPH: &str = "listen = [\"127.0.0.1:10809\"]\n[[backend]]\nname = \"db\"\n\
                    ceph = \"/etc/ceph/ceph.conf\"\npool = \"objects\"\nsize = \"1 TiB\"\n";
const ITS_EXPORT: &str = "[[export]]\nname = \"disk\"\n";

#[test]
fn a_volume_in_ceph_has_defaults_and_is_printed_as_it_is_read() {
    let policy = parse(&format!("{CEPH}{ITS_EXPORT}"), "p").unwrap_or_else(|it| panic!("{it}"));
    let Source::Ceph(volume) = &policy.backends[0].source else { panic!("a volume in Ceph") };
    assert_eq!((volume.user.as_str(), volume.volume.as_str()), ("admin", "db"));
    assert_eq!((volume.shape.object_bytes, volume.shape.candidates), (4 << 20, 2));
    assert_eq!((volume.ceiling_milli, volume.patience), (930, Span::from_secs(30)));
    let more = "user = \"a\"\nkeyring = \"/k\"\nvolume = \"b\"\ncandidates = 3\n\
                ceiling = 0.8\nobject = \"1 MiB\"\npatience = \"5 s\"\nfence = \"none\"\n";
    let policy =
        parse(&format!("{CEPH}{more}{ITS_EXPORT}"), "p").unwrap_or_else(|it| panic!("{it}"));
    assert_eq!(parse(&print(&policy), "again").unwrap(), policy);
}

#[test]
fn what_a_volume_in_ceph_lacks_or_cannot_be_is_said_with_its_place() {
    let without = |key: &str| {
        let lines: Vec<&str> = CEPH.lines().filter(|line| !line.starts_with(key)).collect();
        lines.join("\n") + "\n" + ITS_EXPORT
    };
    let with = |line: &str| format!("{CEPH}{line}\n{ITS_EXPORT}");
    for (text, found, line) in [
        (without("pool"), "needs `pool`", 4),
        (without("size"), "needs `size`", 4),
        (with("volume = \"a/b\""), "is no name of a volume", 7),
        (with("ceiling = 0.97"), "may already have stopped the pool", 7),
        (with("object = \"3 MiB\""), "objects of 3 MiB", 7),
        (with("fence = \"barbed\""), "there is no fence of this kind", 7),
        (with("connections = 2"), "`connections` needs", 7),
        (with("lease = \"5 s\""), "`lease` needs `tiers` or `choices`", 7),
        (without("ceph").replace("size = \"1 TiB\"", "memory = true"), "`pool` needs `ceph`", 4),
    ] {
        let shown = findings(&text);
        let is_shown = shown.contains(found) && shown.contains(&format!("policy.toml:{line}:"));
        assert!(is_shown && shown.contains("= help: "), "{text}\n{shown}");
    }
}

const CHOICES: &str = "choices = [{ backend = \"hdd\", size = \"2 GiB\" }, \
                       { backend = \"ssd\", size = \"1 GiB\" }]\n";

#[test]
fn a_spread_volume_has_defaults_and_is_printed_as_it_is_read() {
    let policy = parse(&tiered(CHOICES, ""), "p").unwrap_or_else(|found| panic!("{found}"));
    let volume = policy.backends[2].spread().unwrap();
    assert_eq!((volume.shape.object_bytes, volume.shape.candidates), (4 << 20, 2));
    assert_eq!((volume.shape.size_bytes, volume.ceiling_milli), (None, 930));
    assert_eq!(policy.exports[0].backend, "v");
    let said = format!("{CHOICES}object = \"1 MiB\"\nsize = \"5 GiB\"\nceiling = 0.8\n");
    let policy = parse(&tiered(&said, ""), "p").unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(parse(&print(&policy), "again").unwrap(), policy);
    let three = CHOICES.replace("}]", "}, \"more\"]");
    let more = "leaving = [\"ssd\"]\n[[backend]]\nname = \"more\"\nfile = \"more.img\"\n";
    let policy = parse(&tiered(&format!("{three}{more}"), "backend = \"v\"\n"), "p");
    let policy = policy.unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(policy.backends[2].spread().unwrap().leaving, ["ssd"]);
    assert_eq!(parse(&print(&policy), "again").unwrap(), policy);
}

/// Both kinds of volume over other backends.
const VOLUMES: [&str; 2] = [TIERS, CHOICES];

#[test]
fn how_a_volume_is_taken_over_has_defaults_and_is_printed_as_it_is_read() {
    let read = |volume: &str, keys: &str| {
        let said = tiered(&format!("{volume}{keys}"), "backend = \"v\"\n");
        let policy = parse(&said, "p").unwrap_or_else(|found| panic!("{found}"));
        assert_eq!(parse(&print(&policy), "again").unwrap(), policy);
        (policy.backends[2].source.takeover().unwrap().clone(), findings(&said))
    };
    let keys = "lease = \"2 s\"\nfence = [\"/bin/off\", \"--rack\", \"7\"]\n\
                takeover = \"after 60 s, unfenced\"\nlate = \"2500 ms\"\n";
    let written = Takeover {
        times: Times::of(Span::from_secs(2)),
        fence: ["/bin/off", "--rack", "7"].map(str::to_owned).to_vec(),
        unfenced_after: Some(Span::from_secs(60)),
        late: Span::from_millis(2500),
    };
    for volume in VOLUMES {
        assert_eq!(read(volume, ""), (Takeover::default(), String::new()));
        let (found, warning) = read(volume, keys);
        assert_eq!(found, written);
        assert!(warning.contains("displaced that is not fenced off"), "{warning}");
        assert!(!warning.contains("servers carry out late"), "{warning}");
        let (found, warning) = read(volume, "fence = \"none\"\nlate = \"0 s\"\n");
        assert_eq!(found, Takeover { late: Span::ZERO, ..Takeover::default() });
        assert!(warning.contains("servers carry out late"), "{warning}");
    }
}

#[test]
fn a_command_comes_from_a_local_file_alone() {
    let file = Path::new("/etc/evenkeel/policy.toml");
    for volume in VOLUMES {
        let text = tiered(&format!("{volume}fence = [\"/bin/off\"]\n"), "backend = \"v\"\n");
        let sent = load_text(&text, "ctl", file);
        let shown = sent.diagnostics.render(false);
        assert!(
            sent.policy.is_none() && shown.contains("backend \"v\" names a command"),
            "{shown}"
        );
        assert!(based(parse_all(&text, "policy.toml"), file).policy.is_some(), "{volume}");
        let without = tiered(&format!("{volume}fence = \"none\"\n"), "backend = \"v\"\n");
        assert!(load_text(&without, "ctl", file).policy.is_some(), "{volume}");
    }
}

#[test]
fn how_a_volume_cannot_be_taken_over_is_shown_where_it_is_written() {
    for volume in VOLUMES {
        for (key, found) in [
            ("lease = \"100 ms\"", "a lease of 100 ms"),
            ("fence = \"blocklist\"", "has no fence \"blocklist\""),
            ("fence = []", "a fence without a program"),
            ("takeover = \"at once\"", "there is no takeover \"at once\""),
            ("late = \"11 min\"", "servers that let go after 11 min"),
        ] {
            let shown = findings(&tiered(&format!("{volume}{key}\n"), "backend = \"v\"\n"));
            let is_shown = shown.contains(found) && shown.contains("policy.toml:11:");
            assert!(is_shown && shown.contains("= help: "), "{volume}\n{shown}");
        }
    }
    for (key, wanted) in [
        ("lease = \"5 s\"", "`lease` needs `tiers` or `choices`"),
        ("fence = [\"/bin/off\"]", "`fence` needs `tiers`, `choices` or `ceph`"),
        ("takeover = \"after 60 s, unfenced\"", "`takeover` needs `tiers` or `choices`"),
        ("late = \"1 s\"", "`late` needs an `upstream`, `tiers` or `choices`"),
    ] {
        let shown = findings(&with("").replace("memory = true", &format!("memory = true\n{key}")));
        assert!(shown.contains(wanted) && shown.contains("policy.toml:5:"), "{shown}");
    }
}

#[test]
fn what_objects_prefer_is_a_list_with_the_figures_that_it_takes() {
    let servers = ["s1", "s2"].map(|name| {
        format!(
            "[[backend]]\nname = \"{name}\"\nupstream = \"nbd://{name}\"\n\
             metrics = \"http://{name}:9100/metrics\"\n"
        )
    });
    let of = |servers: &str, volume: &str| {
        format!(
            "listen = [\"127.0.0.1:10809\"]\n{servers}[[backend]]\nname = \"v\"\n\
             choices = [\"s1\", \"s2\"]\n{volume}\n\
             [[export]]\nname = \"d\"\nbackend = \"v\"\n"
        )
    };
    let servers = servers.concat();
    let preferring = "prefer = [\"space\", \"local\", \"memory\"]\nnear = [\"s2\"]";
    let policy = parse(&of(&servers, preferring), "p").unwrap_or_else(|found| panic!("{found}"));
    let volume = policy.backends[2].spread().unwrap();
    assert_eq!(volume.prefer, [Preference::Space, Preference::Local, Preference::Memory]);
    assert_eq!(volume.near, ["s2"]);
    assert_eq!(parse(&print(&policy), "again").unwrap(), policy);
    let mute = servers.replace("metrics = \"http://s2:9100/metrics\"\n", "");
    for (servers, volume, found) in [
        (&servers, "prefer = [\"journal\"]", "tells how much of its journal"),
        (&servers, "prefer = [\"locale\"]", "did you mean `local`"),
        (&servers, "prefer = []", "prefer nothing"),
        (&servers, "prefer = [\"cpu\", \"cpu\"]", "`cpu` twice"),
        (&servers, "prefer = [\"local\"]", "none is said to be near"),
        (&servers, "prefer = [\"local\"]\nnear = [\"s3\"]", "\"s3\" is said to be near"),
        (&servers, "near = [\"s1\"]", "nothing prefers them"),
        (&mute, "prefer = [\"memory\"]", "`memory`, which nothing tells of \"s2\""),
        (&servers.replace("http", "https"), "", "no page over HTTP"),
    ] {
        let shown = findings(&of(servers, volume));
        assert!(shown.contains(found) && shown.contains("= help: "), "{volume}\n{shown}");
    }
}

#[test]
fn what_a_spread_volume_cannot_be_is_shown_where_it_is_written() {
    for (volume, found, line) in [
        ("choices = [{ backend = \"hdd\", size = \"1 GiB\" }]\n", "spread over 1 servers", 10),
        (&format!("{CHOICES}object = \"3 MiB\"\n"), "objects of 3 MiB", 11),
        (&format!("{CHOICES}candidates = 4\n"), "4 candidates", 11),
        (&format!("{CHOICES}leaving = [\"hdd\"]\n"), "1 servers would stay", 11),
        (&format!("{CHOICES}leaving = [\"tape\"]\n"), "no server of the volume", 11),
        (&format!("{CHOICES}ceiling = 1.1\n"), "no part of a server", 11),
        (&format!("{CHOICES}depth = 4\n"), "`depth` on a volume", 11),
        (&format!("{CHOICES}discipline = \"sfq\"\n"), "`discipline` on a spread volume", 11),
        (&format!("{TIERS}ceiling = 0.9\n"), "`ceiling` needs `choices`", 11),
        (&format!("{TIERS}leaving = [\"hdd\"]\n"), "`leaving` needs `choices`", 11),
    ] {
        let shown = findings(&tiered(volume, "backend = \"v\"\n"));
        let is_shown = shown.contains(found) && shown.contains(&format!("policy.toml:{line}:"));
        assert!(is_shown && shown.contains("= help: "), "{volume}\n{shown}");
    }
}

#[test]
fn a_tier_has_no_discipline_of_its_own_and_a_device_has_no_moves() {
    let of_a_tier =
        tiered(TIERS, "").replacen("memory = true", "discipline = \"edf\"\nmemory = true", 1);
    let shown = findings(&of_a_tier);
    assert!(shown.contains("a tier of `v`") && shown.contains("policy.toml:4:"), "{shown}");
    for (key, found) in
        [("moves = \"off\"", "needs `tiers`"), ("discipline = \"baa\"", "over several devices")]
    {
        let shown = findings(&with("").replace("memory = true", &format!("memory = true\n{key}")));
        assert!(shown.contains(found) && shown.contains("policy.toml:5:"), "{shown}");
    }
}

#[test]
fn floors_and_goals_choose_the_discipline_that_keeps_them() {
    let policy = |tenant: &str, backend: &str| {
        let tenant = "[[tenant]]\nname = \"t\"\nmatch = { export = \"a\" }\n".to_owned() + tenant;
        let memory = format!("memory = true\n{backend}");
        parse(&with(&tenant).replace("memory = true\n", &memory), "p")
            .unwrap_or_else(|found| panic!("{found}"))
    };
    let floor = policy("floor = [\"5 MiB/s\", \"100 iops\"]\n", "");
    let expected = Floor { rate_iops: 100, rate_bytes: 5 << 20 };
    assert_eq!(floor.tenants[0].share.floor, expected);
    assert_eq!(floor.backends[0].scheduling.discipline, Discipline::Mclock);
    let goal = policy("latency = \"10 ms\"\n", "cost = \"request\"\ncapacity = \"2k iops\"\n");
    assert_eq!(goal.tenants[0].share.latency_goal, Span::from_millis(10));
    let scheduling = &goal.backends[0].scheduling;
    assert_eq!((scheduling.discipline, scheduling.capacity_iops), (Discipline::Edf, Some(2000)));
}

/// A backend that is shared, and what `extra` adds.
fn shared(extra: &str) -> String {
    with(&format!(
        "[exchange]\nname = \"site\"\nlisten = \"10.0.0.1:10900\"\n\
         peers = [\"10.0.0.2:10900\"]\nkey = \"exchange.key\"\n{extra}"
    ))
    .replace("memory = true\n", "memory = true\ncontrol = \"drg\"\n")
}

#[test]
fn a_controller_makes_a_backend_shared_and_the_listener_names_the_gate() {
    let text = shared("period = \"200 ms\"\nrecord = \"a.rec\"\n");
    let policy = parse(&text, "p").unwrap_or_else(|found| panic!("{found}"));
    let scheduling = &policy.backends[0].scheduling;
    assert_eq!(
        (scheduling.discipline, scheduling.control),
        (Discipline::Shared, Control::By(Method::Drg))
    );
    let exchange = policy.exchange.as_ref().unwrap();
    assert_eq!(
        (exchange.own.as_str(), exchange.period),
        ("10.0.0.1:10900", Span::from_millis(200))
    );
    assert_eq!(parse(&print(&policy), "printed"), Ok(policy));
    let by_word = text.replace("control = \"drg\"", "discipline = \"shared\"");
    let policy = parse(&by_word, "p").unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(policy.backends[0].scheduling.control, Control::By(Method::Shares));
}

#[test]
fn what_virtual_time_leaves_out_of_a_policy_is_said() {
    let of = |text: &str| taken_alone(&parse(text, "p").unwrap_or_else(|found| panic!("{found}")));
    assert_eq!(of(&with("")), None);
    let said = of(&shared("")).unwrap_or_default();
    assert!(said.starts_with("warning: ") && said.contains("`m`"), "{said}");
}

/// The same in an exchange that goes over a server.
fn over_nats() -> String {
    let listed = "listen = \"10.0.0.1:10900\"\npeers = [\"10.0.0.2:10900\"]\n";
    shared("").replace(listed, "own = \"gate-1\"\nnats = [\"nats://10.0.0.9:4222\"]\n")
}

#[test]
fn a_server_that_passes_words_on_takes_a_build_that_can() {
    let parsed = parse(&over_nats(), "p");
    if !Feature::Nats.is_built() {
        let found = parsed.unwrap_err().to_string();
        assert!(found.contains("built without NATS") && found.contains("--no-default"), "{found}");
        return;
    }
    let policy = parsed.unwrap_or_else(|found| panic!("{found}"));
    let exchange = policy.exchange.as_ref().unwrap();
    let servers = vec!["nats://10.0.0.9:4222".to_owned()];
    assert_eq!((exchange.own.as_str(), &exchange.meeting), ("gate-1", &Meeting::Nats { servers }));
    assert_eq!(parse(&print(&policy), "printed"), Ok(policy));
}

#[test]
fn a_list_in_etcd_stands_in_place_of_peers_in_a_build_that_can() {
    let text =
        shared("").replace("peers = [\"10.0.0.2:10900\"]", "etcd = [\"http://10.0.0.9:2379\"]");
    let parsed = parse(&text, "p");
    if !Feature::Etcd.is_built() {
        let found = parsed.unwrap_err().to_string();
        assert!(found.contains("built without etcd") && found.contains("--features"), "{found}");
        return;
    }
    let policy = parsed.unwrap_or_else(|found| panic!("{found}"));
    let exchange = policy.exchange.as_ref().unwrap();
    assert_eq!((exchange.own.as_str(), exchange.others()), ("10.0.0.1:10900", None));
    assert_eq!(parse(&print(&policy), "printed"), Ok(policy));
}

#[test]
fn what_is_wrong_with_an_exchange_is_shown_where_it_stands() {
    let nats = over_nats();
    let cases = [
        (shared("nats = [\"nats://h:1\"]\n"), "in one way", 14),
        (nats.replace("own = ", "peers = [\"h:1\"]\nown = "), "in one way", 13),
        (shared("").replace("peers = ", "# "), "meets nobody", 9),
        (shared("").replace("listen = \"10.0.0.1:10900\"", ""), "listens nowhere", 12),
        (nats.replace("own = ", "listen = "), "need no address here", 11),
        (nats.replace("own = \"gate-1\"", ""), "a gate without a name", 12),
        (shared("period = \"1 ms\"\n"), "a period of 1 ms", 14),
        (shared("perod = \"1 s\"\n"), "unknown key `perod`", 14),
        (shared("").replace("10.0.0.2:10900", "nowhere"), "is not an address and port", 12),
        (with("").replace("memory = true", "memory = true\ncontrol = \"slack\""), "shared with", 5),
        (with("").replace("memory = true", "memory = true\ncontrol = \"slak\""), "a controller", 5),
    ];
    for (text, found, line) in cases {
        let shown = findings(&text);
        let is_shown = shown.contains(found) && shown.contains(&format!("policy.toml:{line}:"));
        assert!(is_shown && shown.contains("= help: "), "{text}\n{shown}");
    }
}

#[test]
fn a_goal_bounds_a_mean_or_a_percentile_over_a_window() {
    let goal = |written: &str| {
        let tenant = format!("[[tenant]]\nname = \"t\"\nlatency = {written}\n");
        let policy = parse(&with(&tenant), "p").unwrap_or_else(|found| panic!("{found}"));
        assert_eq!(parse(&print(&policy), "printed").as_ref(), Ok(&policy));
        policy.tenants[0].share.target().unwrap()
    };
    let ms = Span::from_millis;
    assert_eq!(goal("\"20 ms\""), Target::mean(ms(20), ms(1000)));
    assert_eq!(goal("{ mean = \"20 ms\", window = \"5 s\" }"), Target::mean(ms(20), ms(5000)));
    let most = goal("{ most = \"50 ms\", percentile = 99.5, window = \"10 s\" }");
    assert_eq!(most, Target::all_but(5, ms(50), ms(10_000)));
    for (wrong, found) in [
        ("{ most = \"50 ms\" }", "neither a mean nor a percentile"),
        ("{ most = \"50 ms\", percentile = 100 }", "no percentile"),
        ("{ mean = \"50 ms\", window = \"0 s\" }", "a window of no length"),
    ] {
        let tenant = format!("[[tenant]]\nname = \"t\"\nlatency = {wrong}\n");
        let shown = findings(&with(&tenant));
        assert!(shown.contains(found), "{wrong}\n{shown}");
    }
}

#[test]
fn the_cache_of_a_store_is_a_device_of_its_own_where_the_discipline_spans_devices() {
    let keys = "discipline = \"baa\"\ncache.drive = \"/dev/n\"\ncache.depth = 8\n\
                cache.cost.read = { fixed = \"80 us\", rate = \"1 GiB/s\" }";
    let store = |keys: &str| {
        let source = format!("store = [\"/dev/b\"]\n{keys}");
        with("").replace("memory = true", &source).replace("size = ", "# size = ")
    };
    let policy = parse(&store(keys), "p").unwrap_or_else(|found| panic!("{found}"));
    let apart = policy.backends[0].cache_scheduling().expect("it has a drive, and baa");
    assert_eq!(apart.depth, Depth::Requests(8));
    assert_eq!(parse(&print(&policy), "printed"), Ok(policy));
    let idle = keys.replace("baa", "sfq");
    let parsed = parse_all(&store(&idle), "policy.toml");
    assert!(parsed.diagnostics.render(false).contains("no queue of its own"));
    let policy = parsed.policy.expect("a warning");
    assert_eq!(policy.backends[0].cache_scheduling(), None);
    assert_eq!(parse(&print(&policy), "printed"), Ok(policy), "kept for when it has one");
}

#[test]
fn the_default_policy_is_valid_without_a_warning() {
    let parsed = parse_all(DEFAULT, "policy.toml");
    assert_eq!(parsed.diagnostics.render(false), "");
    let policy = parsed.policy.unwrap();
    let shares: Vec<_> = policy.tenants.iter().map(|tenant| tenant.share.weight_milli).collect();
    assert_eq!((policy.mode, shares), (Mode::Enforce, vec![3000, 1000]));
}

#[test]
fn a_printed_policy_reads_back_the_same() {
    for text in [manual(), DEFAULT.to_owned(), tiered(TIERS, "")] {
        let policy = parse(&text, "p").unwrap();
        let printed = print(&policy);
        let again = parse(&printed, "printed").unwrap_or_else(|found| panic!("{found}"));
        assert_eq!(again, policy, "{printed}");
    }
}

#[test]
fn an_unknown_key_is_shown_in_its_line_with_the_key_that_was_meant() {
    let shown = findings(&with("[[tenant]]\nname = \"db\"\nshrae = 4\n"));
    let expected = "\
error: unknown key `shrae` in [[tenant]]
  --> policy.toml:10:1
   |
10 | shrae = 4
   | ^^^^^
   = help: did you mean `share`?

";
    assert_eq!(shown, expected);
}

#[test]
fn a_rule_over_several_parts_is_shown_in_its_line_too() {
    let shown =
        findings(&with("[[export]]\nname = \"b\"\nbackend = \"nowhere\"\nsize = \"1 GiB\"\n"));
    assert!(shown.contains("policy.toml:10:11"), "{shown}");
    assert!(shown.contains("backend = \"nowhere\""), "{shown}");
}

#[test]
fn all_mistakes_are_reported_together_in_the_order_of_the_file() {
    let text = "mode = \"enfroce\"\nlisten = [\"nowhere\"]\n[[backend]]\nname = \"x\"\n\
                depth = true\n[[tenant]]\nshare = \"4\"\nlimit = \"200 MiB\"\n\
                [memory]\ntotal = 5\n";
    let parsed = parse_all(text, "p.toml");
    let messages: Vec<_> =
        parsed.diagnostics.found().iter().map(|found| found.message.as_str()).collect();
    let expected = [
        "`enfroce` is not a mode",
        "`nowhere` is no address",
        "backend `x` does not say where its bytes are",
        "expected a depth, found a truth value",
        "[[tenant]] has no `name`",
        "expected a number, found a text",
        "`200 MiB` is not a rate: it ends with neither `/s` nor `iops`",
        "expected a size, found an integer",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn what_contradicts_itself_is_refused_with_a_remedy() {
    let cases = [
        ("[[backend]]\nname = \"b\"\nmemory = true\nfile = \"x\"\n", "names 2 sources"),
        ("[[backend]]\nname = \"b\"\nmemory = true\npatience = \"1 s\"\n", "needs an `upstream`"),
        ("[[backend]]\nname = \"b\"\nupstream = \"nbd://a\"\ndirect = true\n", "needs a `file`"),
        ("[[backend]]\nname = \"b\"\nfile = \"x\"\ndegraded = true\n", "needs a `store`"),
        ("[[backend]]\nname = \"b\"\nfile = \"x\"\npower_down = \"9 s\"\n", "needs a `store`"),
        ("[[backend]]\nname = \"b\"\nstore = [\"x\"]\nemulate = \"floppy\"\n", "can be emulated"),
        ("[[backend]]\nname = \"b\"\nstore = \"x\"\n", "expected a list"),
        ("[[backend]]\nname = \"b\"\nstore = [\"\"]\n", "this path is empty"),
        ("[[backend]]\nname = \"b\"\nupstream = \"nbds://a\"\n", "no authority to trust"),
        ("[[backend]]\nname = \"b\"\nupstream = \"nbd://a/x\"\n", "it names an export"),
        ("[[group]]\nname = \"g\"\nbackends = [\"m\"]\nmin_share = 0.5\n", "needs hybrid sharing"),
        ("[[tenant]]\nname = \"t\"\nmatch = { export = \"a\", peer = \"::1\" }\n", "several kinds"),
        ("[[tenant]]\nname = \"t\"\nmatch = {}\n", "would match nothing"),
        ("[[tenant]]\nname = \"t\"\nlimit = [\"1 iops\", \"2 iops\"]\n", "a second limit"),
        ("[[tenant]]\nname = \"t\"\nlimit = \"0 iops\"\n", "would let nothing pass"),
        ("[[tenant]]\nname = \"t\"\nshare = 1.0001\n", "does not fit"),
        ("[[tenant]]\nname = \"t\"\nfloor = \"0 iops\"\n", "promises nothing"),
        ("[[tenant]]\nname = \"t\"\nfloor = [\"1 iops\", \"2 iops\"]\n", "a second floor"),
        ("[[tenant]]\nname = \"t\"\nlatency = \"0 s\"\n", "can never be met"),
    ];
    for (extra, expected) in cases {
        let shown = findings(&with(extra));
        assert!(shown.contains(expected) && shown.contains("= help: "), "{extra}\n{shown}");
    }
}

#[test]
fn a_limit_without_a_burst_gets_a_tenth_of_a_second() {
    let text = with(
        "[[tenant]]\nname = \"t\"\nmatch = { export = \"a\" }\n\
         limit = [\"100 MiB/s\", \"5 iops\"]\n",
    );
    let limit = parse(&text, "p").unwrap().tenants[0].share;
    let expected =
        Limit { rate_bytes: 100 << 20, rate_iops: 5, burst_bytes: 10 << 20, burst_requests: 1 };
    assert_eq!(limit, Share { limit: expected, ..Share::default() });
}

#[test]
fn an_adaptive_depth_holds_the_read_goal_for_writes_unless_told_otherwise() {
    let text = with("")
        .replace("memory = true", "memory = true\ndepth = { max = 64, read_goal = \"5 ms\" }");
    let goal = Span::from_millis(5);
    let expected = Depth::Adaptive { min: 1, max: 64, read_goal: goal, write_goal: goal };
    assert_eq!(parse(&text, "p").unwrap().backends[0].scheduling.depth, expected);
}

#[test]
fn a_depth_may_be_left_to_the_gate() {
    let with_depth = |depth: &str| {
        with("").replace("memory = true", &format!("memory = true\ndepth = \"{depth}\""))
    };
    let policy = parse(&with_depth("automatic"), "p").unwrap();
    assert_eq!(policy.backends[0].scheduling.depth, Depth::Automatic);
    assert_eq!(parse(&print(&policy), "printed"), Ok(policy));
    let shown = findings(&with_depth("automatik"));
    assert!(shown.contains("`\"automatic\"`"), "{shown}");
}

#[test]
fn relative_paths_start_from_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    std::fs::write(&path, DEFAULT).unwrap();
    let policy = load_valid(&path).unwrap();
    assert_eq!(policy.listeners[1].address, Address::Unix(folder.path().join("nbd.sock")));
}

#[test]
fn broken_syntax_is_shown_where_it_breaks() {
    let shown = findings("mode = \"enforce\nlisten = []\n");
    assert!(shown.contains("--> policy.toml:1:"), "{shown}");
}

#[test]
fn a_file_that_is_no_text_or_too_large_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(load(&path).unwrap_err().to_string().contains("not UTF-8"));
    let shown = findings(&"#".repeat(FILE_BYTES_MAX + 1));
    assert!(shown.contains("is this the right file?"), "{shown}");
}

/// Pieces of which policies, and things that almost are policies, can be put together.
const PIECES: &[&str] = &[
    "[[backend]]",
    "[[export]]",
    "[[tenant]]",
    "[memory]",
    "[[group]]",
    "[[listener]]",
    "name",
    "=",
    "match",
    "share",
    "floor",
    "latency",
    "tiers",
    "store",
    "degraded",
    "emulate",
    "power_down",
    "\"cheetah-9lp\"",
    "\"5 iops\"",
    "limit",
    "depth",
    "cost",
    "upstream",
    "\"nbd://a\"",
    "\"4 MiB\"",
    "\"1 ms\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    "true",
    "1.5",
    "7",
    "-1",
    "inf",
    "\n",
    "\n",
    "\"x\"",
    ".",
    "tls",
    "memory",
    "\u{1f980}",
    "'",
    "read",
    "1979-05-27",
    "\"\\u0000\"",
];

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "(?s).{0,300}") {
        let parsed = parse_all(&text, "p");
        let _ = (parsed.diagnostics.render(true), parsed.diagnostics.to_json());
    }

    #[test]
    fn no_mixture_of_pieces_makes_the_parser_panic(
        picks in proptest::collection::vec(0..PIECES.len(), 0..60),
    ) {
        let text: Vec<&str> = picks.into_iter().map(|pick| PIECES[pick]).collect();
        let parsed = parse_all(&text.join(" "), "p");
        let _ = (parsed.diagnostics.render(true), parsed.diagnostics.to_json());
        if let Some(policy) = parsed.policy {
            prop_assert_eq!(parse(&print(&policy), "printed"), Ok(policy));
        }
    }

    #[test]
    fn no_damage_to_a_valid_policy_makes_the_parser_panic(
        at in 0..DEFAULT.len(), length in 0..40_usize, patch in "(?s).{0,12}",
    ) {
        let start = (0..=at).rev().find(|&at| DEFAULT.is_char_boundary(at)).unwrap();
        let end = (start + length).min(DEFAULT.len());
        let text = format!("{}{patch}{}", &DEFAULT[..start], &DEFAULT[end..]);
        let parsed = parse_all(&text, "p");
        if let Some(policy) = parsed.policy {
            prop_assert_eq!(parse(&print(&policy), "printed"), Ok(policy));
        }
    }
}

#[test]
fn an_upstream_says_which_server_it_is() {
    let of = |more: &str| {
        format!(
            "listen = [\"127.0.0.1:10809\"]\n[[backend]]\nname = \"b\"\n{more}\n\
             [[export]]\nname = \"d\"\nbackend = \"b\"\n"
        )
    };
    let upstream = "upstream = \"nbd://s1\"\n";
    for (more, expected) in [("", NbdServer::Other), ("server = \"nbdkit\"", NbdServer::Nbdkit)] {
        let policy = parse(&of(&format!("{upstream}{more}")), "p");
        let policy = policy.unwrap_or_else(|found| panic!("{found}"));
        let Source::Upstream(found) = &policy.backends[0].source else { panic!("an upstream") };
        assert_eq!(found.server, expected);
        assert_eq!(parse(&print(&policy), "again").unwrap(), policy);
    }
    for (more, found) in [
        ("upstream = \"nbd://s1\"\nserver = \"nbdkid\"", "did you mean `nbdkit`"),
        ("file = \"disk.img\"\nserver = \"nbdkit\"", "`server` needs an `upstream`"),
    ] {
        let shown = findings(&of(more));
        assert!(shown.contains(found), "{shown}");
    }
}

#[test]
fn the_names_of_the_metrics_port_are_names_alone_and_are_printed_as_they_are_read() {
    let policy = |hosts: &str| with(&format!("[metrics]\nhosts = {hosts}\n"));
    let text = policy("[\"gate.example\", \"Gate-2.\"]");
    let read = parse(&text, "p").unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(read.metrics.hosts, ["gate.example", "Gate-2"]);
    assert_eq!(parse(&print(&read), "printed"), Ok(read));
    for bad in ["http://gate.example", "gate.example:9809", "*.example", "gate.example/", ""] {
        let found = findings(&policy(&format!("[\"{bad}\"]")));
        assert!(found.contains("is not the name of a host"), "{bad}: {found}");
    }
    for needless in ["localhost", "10.0.0.5", "[::1]"] {
        let parsed = parse_all(&policy(&format!("[\"{needless}\"]")), "p");
        assert!(parsed.diagnostics.to_string().contains("without being listed"), "{needless}");
        assert_eq!(parsed.policy.unwrap().metrics.hosts, Vec::<String>::new());
    }
}

#[test]
fn a_path_keeps_the_spelling_that_it_has_in_force() {
    let text = "listen = [\"unix:gate.sock\"]\n[[backend]]\nname = \"a\"\nfile = \"disk.img\"\n\
                [[export]]\nname = \"x\"\n";
    let in_force = parse(text, "p").unwrap();
    let mut printed = in_force.clone();
    absolute(&mut printed);
    assert_ne!(printed, in_force);
    spell_as(&mut printed, &in_force);
    assert_eq!(printed, in_force);
    let mut other = parse(&text.replace("disk.img", "other.img"), "p").unwrap();
    let as_it_is = other.clone();
    spell_as(&mut other, &in_force);
    assert_eq!(other, as_it_is);
}
