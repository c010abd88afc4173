//! Volumes in pools of Ceph in the status of a gate: how full the OSDs are.

use crate::status::{Backend, Osd, Pool};
use crate::{human, terminal};

/// Most OSDs that are listed of a pool: those that are not up, then the fullest.
const LISTED_MAX: usize = 12;

/// A table of the OSDs of each volume that is open; nothing if there is none.
pub(super) fn tables(backends: &[Backend]) -> String {
    let pools = backends.iter().filter_map(|backend| Some((&backend.name, backend.pool.as_ref()?)));
    pools.map(|(name, pool)| table(name, pool)).collect()
}

fn table(name: &str, pool: &Pool) -> String {
    let mut osds: Vec<&Osd> = pool.osds.iter().collect();
    let is_up = |osd: &Osd| osd.standing == "up";
    osds.sort_by(|one, other| {
        let parts = other.used_part().total_cmp(&one.used_part());
        is_up(one).cmp(&is_up(other)).then(parts).then(one.osd.cmp(&other.osd))
    });
    let rows: Vec<_> = osds.iter().take(LISTED_MAX).map(|osd| row(osd, pool.ceiling)).collect();
    let header = ["OSD", "SIZE", "USED", "FULL", "CEILING", "STANDING"];
    let mut text = format!("\n{name}\n{}", terminal::table(&header, &rows));
    let left_out = pool.osds_all.saturating_sub(rows.len() as u64);
    if left_out > 0 {
        let rest = osds.iter().skip(LISTED_MAX);
        let fullest = rest.map(|osd| osd.used_part()).fold(0.0, f64::max);
        let part = human::percent(fullest);
        text += &format!("and {left_out} more that are up, none above {part}\n");
    }
    text += &format!(
        "{} objects placed, {} not under their first name; {} of {} groups not served; figures {} \
         old\n",
        pool.placed_objects,
        pool.diverted_objects,
        pool.unserved_groups,
        pool.groups,
        super::time(Some(pool.age_seconds)),
    );
    text
}

fn row(osd: &Osd, ceiling: f64) -> Vec<String> {
    vec![
        format!("osd.{}", osd.osd),
        human::size(osd.capacity_bytes as f64),
        human::size(osd.used_bytes as f64),
        human::percent(osd.used_part()),
        human::percent(ceiling),
        osd.standing.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn osd(osd: u32, used_bytes: u64, standing: &str) -> Osd {
        Osd { osd, capacity_bytes: 4 << 30, used_bytes, standing: standing.to_owned() }
    }

    fn backend(osds: Vec<Osd>) -> Backend {
        let pool = Pool {
            placed_objects: 700,
            diverted_objects: 290,
            ceiling: 0.93,
            groups: 32,
            unserved_groups: 3,
            age_seconds: 1.5,
            osds_all: osds.len() as u64,
            osds,
            ..Pool::default()
        };
        Backend { name: "db".to_owned(), pool: Some(pool), ..Backend::default() }
    }

    #[test]
    fn who_is_down_comes_first_and_then_the_fullest() {
        let osds = vec![osd(0, 1 << 30, "up"), osd(1, 2 << 30, "up"), osd(2, 0, "down")];
        assert_eq!(
            tables(&[backend(osds), Backend::default()]),
            "\ndb\n\
             OSD     SIZE   USED  FULL  CEILING  STANDING\n\
             osd.2  4 GiB    0 B    0%      93%      down\n\
             osd.1  4 GiB  2 GiB   50%      93%        up\n\
             osd.0  4 GiB  1 GiB   25%      93%        up\n\
             700 objects placed, 290 not under their first name; 3 of 32 groups not served; \
             figures 1.5 s old\n"
        );
    }

    #[test]
    fn of_many_osds_the_rest_is_summed_up() {
        let osds = (0..40).map(|number| osd(number, u64::from(number) << 26, "up")).collect();
        let text = tables(&[backend(osds)]);
        assert_eq!(text.lines().filter(|line| line.starts_with("osd.")).count(), LISTED_MAX);
        assert!(
            text.contains("osd.39") && text.contains("and 28 more that are up, none above 42%")
        );
    }
}
