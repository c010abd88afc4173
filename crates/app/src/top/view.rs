//! Draws a [`Picture`] in whatever room there is, from 80 by 24 on.
//!
//! ```text
//! evenkeel 0.1.0   ENFORCE   up 2m00s   6 connections   12 MiB of 256 MiB held
//!
//! TENANT       one row each: offered, delivered, got, due, could have, times, waits for whom
//! SHARES       a bar of what each got, with a mark at what is due
//! BACKENDS     state, how busy, how much is with it and how much waits
//! ALL GATES    what each had of an array that several gates divide, through all of them
//! WHY          what keeps tenants below their due
//! WHO WAITS    the pairs that hurt most
//!
//! q quit   s sort (by delivered)   p pause   ? help
//! ```

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span as Run};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as TableRow, Table};

use super::model::{BackendLine, Order, Pair, Part, Picture, Row};
use crate::human;

/// Room for the share bars is given to so many tenants at most.
const BARS_MAX: usize = 8;

/// Parts of arrays that are shown at most.
const PARTS_MAX: usize = 8;

/// Pairs of who waits for whom that are shown at most.
const PAIRS_MAX: usize = 5;

/// So many causes are shown at most.
const FINDINGS_MAX: usize = 3;

/// A tenant with so many requests at its own limit, on average, is kept back by that.
const LIMITED_MIN: f64 = 0.5;

/// Lines of the header, of the gap below it, and of the footer.
const HEAD_AND_FOOT: usize = 3;

/// Lines of a section beside its items: a gap and a title.
const TITLE: usize = 2;

/// Lines that the table of tenants gets before anything else.
const TENANT_LINES_MIN: usize = 9;

/// How a tenant that waits behind its own requests is told.
const ITSELF: &str = "itself";

/// From this width on, requests per second and weights are shown too.
const WIDE: u16 = 110;

/// What the user chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Order of the rows.
    pub order: Order,
    /// The picture stands still.
    pub paused: bool,
    /// The help is open.
    pub help: bool,
    /// Rows scrolled past.
    pub scrolled: usize,
    /// Whether colour is welcome.
    pub colour: bool,
    /// What is wrong with the gate, if it does not answer.
    pub trouble: Option<String>,
}

impl Choices {
    fn style(&self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    fn faint(&self) -> Style {
        self.style(Color::DarkGray)
    }
}

/// Draws the picture.
pub fn draw(frame: &mut Frame<'_>, picture: &Picture, choices: &Choices) {
    let Rect { width, height, .. } = frame.area();
    let heights = heights(picture, choices, (usize::from(width), usize::from(height)));
    let bars = &picture.rows[..picture.rows.len().min(BARS_MAX)];
    let pairs = &picture.pairs[..picture.pairs.len().min(PAIRS_MAX)];
    let parts = &picture.parts[..picture.parts.len().min(PARTS_MAX)];
    let [head, tenants, shares, backends, gates, why, waits, _, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(heights.tenants),
        Constraint::Length(heights.shares),
        Constraint::Length(heights.backends),
        Constraint::Length(heights.gates),
        Constraint::Length(heights.why),
        Constraint::Length(heights.waits),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    header(frame, head, picture, choices);
    tenant_table(frame, tenants, picture, choices);
    share_bars(frame, shares, bars, choices);
    backend_lines(frame, backends, &picture.backends, choices);
    part_lines(frame, gates, parts, choices);
    finding_lines(frame, why, &picture.findings, choices);
    pair_lines(frame, waits, pairs, choices);
    footer(frame, foot, choices);
    if choices.help {
        help(frame);
    }
}

/// Lines for each part of the picture.
struct Heights {
    tenants: u16,
    shares: u16,
    backends: u16,
    gates: u16,
    why: u16,
    waits: u16,
}

/// Shares out the lines: first some to the tenants, then to each section that fits as a whole, and
/// what is left to the tenants again.
fn heights(picture: &Picture, choices: &Choices, (width, lines): (usize, usize)) -> Heights {
    let mut left = lines.saturating_sub(HEAD_AND_FOOT);
    let mut take = |wanted: usize| {
        let taken = if wanted <= left { wanted } else { 0 };
        left -= taken;
        u16::try_from(taken).unwrap_or(u16::MAX)
    };
    let section = |items: usize| if items == 0 { 0 } else { items + TITLE };
    let rows = picture.rows.len().saturating_sub(choices.scrolled).max(1) + 1;
    let first = take(rows.min(TENANT_LINES_MIN).min(lines.saturating_sub(HEAD_AND_FOOT)));
    let backends = take(section(picture.backends.len()));
    let gates = take(section(picture.parts.len().min(PARTS_MAX)));
    let why = take(section(finding_text(&picture.findings, width).len()));
    let waits = take(section(picture.pairs.len().min(PAIRS_MAX)));
    let shares = take(section(picture.rows.len().min(BARS_MAX)));
    let rest = u16::try_from((rows - usize::from(first)).min(left)).unwrap_or(u16::MAX);
    Heights { tenants: first + rest, shares, backends, gates, why, waits }
}

fn header(frame: &mut Frame<'_>, area: Rect, picture: &Picture, choices: &Choices) {
    let mode_colour = match picture.mode.as_str() {
        "enforce" => Color::Green,
        "shadow" => Color::Yellow,
        _ => Color::Cyan,
    };
    let (held, bound) = picture.memory_bytes;
    let uptime = human::duration(crate::ctl::seconds(picture.uptime_seconds.floor()));
    let mut runs = vec![
        Run::styled(format!("evenkeel {}", picture.version), Modifier::BOLD),
        Run::raw("   "),
        Run::styled(picture.mode.to_uppercase(), choices.style(mode_colour).bold()),
        Run::raw(format!(
            "   up {uptime}   {} connections   {} of {} held",
            picture.connections,
            human::size(held as f64),
            human::size(bound as f64)
        )),
    ];
    if choices.paused {
        runs.push(Run::styled("   PAUSED", choices.style(Color::Yellow).bold()));
    }
    frame.render_widget(Line::from(runs), area);
}

/// One column of the tenants table.
struct Column {
    title: &'static str,
    width: u16,
    wide_only: bool,
    text: fn(&Row) -> String,
}

const COLUMNS: &[Column] = &[
    Column { title: "SHARE", width: 5, wide_only: true, text: |row| row.share.to_string() },
    Column {
        title: "OFFERED/s",
        width: 9,
        wide_only: false,
        text: |row| human::size(row.offered.bytes),
    },
    Column {
        title: "req/s",
        width: 6,
        wide_only: true,
        text: |row| human::count(row.offered.requests),
    },
    Column {
        title: "DELIVERED",
        width: 9,
        wide_only: false,
        text: |row| human::size(row.delivered.bytes),
    },
    Column {
        title: "req/s",
        width: 6,
        wide_only: true,
        text: |row| human::count(row.delivered.requests),
    },
    Column { title: "GOT", width: 4, wide_only: false, text: |row| human::percent(row.got) },
    Column { title: "DUE", width: 4, wide_only: false, text: |row| human::percent(row.entitled) },
    Column { title: "CAN", width: 4, wide_only: false, text: |row| human::percent(row.attainable) },
    Column { title: "QUEUE99", width: 7, wide_only: false, text: |row| time(row.queue_p99) },
    Column { title: "DISK99", width: 7, wide_only: false, text: |row| time(row.device_p99) },
    Column { title: "LIMIT", width: 5, wide_only: false, text: |row| held(row.limited) },
];

fn tenant_table(frame: &mut Frame<'_>, area: Rect, picture: &Picture, choices: &Choices) {
    let wide = area.width >= WIDE;
    let columns: Vec<_> = COLUMNS.iter().filter(|column| wide || !column.wide_only).collect();
    let right = |text: String| Line::from(text).alignment(Alignment::Right);
    let mut titles = vec![Cell::from("TENANT")];
    titles.extend(columns.iter().map(|column| Cell::from(right(column.title.to_owned()))));
    titles.push(Cell::from("WAITS FOR"));
    let rows = picture.rows.iter().skip(choices.scrolled).map(|row| {
        let mut cells = vec![Cell::from(Run::styled(row.name.clone(), Modifier::BOLD))];
        for column in &columns {
            let style = if column.title == "GOT" { judgement(row, choices) } else { Style::new() };
            cells.push(Cell::from(right((column.text)(row)).style(style)));
        }
        let waits = row.waits_for.as_ref();
        cells.push(Cell::from(waits.map_or_else(String::new, |(culprit, part)| {
            let culprit = if *culprit == row.name { ITSELF } else { culprit };
            format!("{culprit} {}", human::percent(*part))
        })));
        TableRow::new(cells)
    });
    let widths = std::iter::once(Constraint::Fill(1))
        .chain(columns.iter().map(|column| Constraint::Length(column.width)))
        .chain([Constraint::Fill(1)]);
    let table = Table::new(rows, widths).header(TableRow::new(titles).style(choices.faint()));
    frame.render_widget(table, area);
    if picture.rows.is_empty() {
        let note = Paragraph::new("no requests yet").style(choices.faint());
        let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        frame.render_widget(note, below);
    }
}

/// Yellow for a tenant at its own limit, red for one that gets clearly less than it could, green
/// for one that gets its due.
fn judgement(row: &Row, choices: &Choices) -> Style {
    if row.attainable <= 0.0 {
        Style::new()
    } else if row.limited >= LIMITED_MIN {
        choices.style(Color::Yellow)
    } else if row.got < 0.9 * row.attainable {
        choices.style(Color::Red).bold()
    } else {
        choices.style(Color::Green)
    }
}

/// The area below a section's title.
fn titled(frame: &mut Frame<'_>, area: Rect, title: &str, choices: &Choices) -> Rect {
    let [_, title_area, rest] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Fill(1)])
            .areas(area);
    frame.render_widget(Paragraph::new(title).style(choices.faint()), title_area);
    rest
}

fn share_bars(frame: &mut Frame<'_>, area: Rect, rows: &[Row], choices: &Choices) {
    if rows.is_empty() || area.height < 3 {
        return;
    }
    let area = titled(frame, area, "SHARES OF SERVICE   bar: got   |: due by weight", choices);
    let lines = rows.iter().map(|row| {
        let width = usize::from(area.width).saturating_sub(30).max(10);
        let mut runs = vec![Run::raw(format!("{:<12.12} ", row.name))];
        runs.extend(bar(row, width, choices));
        runs.push(Run::raw(format!(
            " {:>4} of {:>4}",
            human::percent(row.got),
            human::percent(row.entitled)
        )));
        Line::from(runs)
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

/// A bar of what was got, with a mark at what is due.
fn bar(row: &Row, width: usize, choices: &Choices) -> Vec<Run<'static>> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to width")]
    let cells = |part: f64| (part.clamp(0.0, 1.0) * width as f64).round() as usize;
    let (got, due) = (cells(row.got), cells(row.entitled).min(width - 1));
    let cell = |index: usize| match index {
        index if index == due => "|",
        index if index < got => "\u{2588}",
        _ => "\u{2591}",
    };
    let style = |index: usize| match index {
        index if index == due => Style::new().add_modifier(Modifier::BOLD),
        index if index < got => judgement(row, choices),
        _ => choices.faint(),
    };
    (0..width).map(|index| Run::styled(cell(index), style(index))).collect()
}

fn backend_lines(frame: &mut Frame<'_>, area: Rect, backends: &[BackendLine], choices: &Choices) {
    if backends.is_empty() || area.height < 3 {
        return;
    }
    let area = titled(frame, area, "BACKENDS", choices);
    let lines = backends.iter().map(|backend| {
        let (word, colour) = if backend.up { ("up", Color::Green) } else { ("DOWN", Color::Red) };
        let numbers = if backend.up {
            let depth = if backend.depth == 0 {
                String::new()
            } else {
                let found = if backend.is_depth_found { ", found" } else { "" };
                format!(" (depth {}{found})", backend.depth)
            };
            let busy = human::percent(backend.busy);
            format!(
                " busy {busy:>4}, {} there{depth}, {} waiting   ",
                backend.in_service, backend.queued
            )
        } else {
            " ".to_owned()
        };
        Line::from(vec![
            Run::raw(format!("{:<12.12} ", backend.name)),
            Run::styled(format!("{word:<4}"), choices.style(colour).bold()),
            Run::raw(numbers),
            Run::styled(backend.remark.clone(), choices.faint()),
        ])
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

fn part_lines(frame: &mut Frame<'_>, area: Rect, parts: &[Part], choices: &Choices) {
    if parts.is_empty() || area.height < 3 {
        return;
    }
    let title = "OVER ALL GATES   part of what the array did in the last period";
    let area = titled(frame, area, title, choices);
    let lines = parts.iter().map(|part| {
        let (all, here) = (human::percent(part.all), human::percent(part.here));
        let Part { tenant, array, .. } = part;
        Line::from(format!("{tenant:<12.12} {all:>4} of {array}, {here} through this gate"))
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

/// The lines of what keeps tenants below their due.
fn finding_text(findings: &[String], width: usize) -> Vec<String> {
    findings.iter().take(FINDINGS_MAX).flat_map(|finding| wrapped(finding, width)).collect()
}

/// A sentence in lines that are no longer than this, but for longer words.
fn wrapped(sentence: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in sentence.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("  {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

fn finding_lines(frame: &mut Frame<'_>, area: Rect, findings: &[String], choices: &Choices) {
    if findings.is_empty() || area.height < 3 {
        return;
    }
    let area = titled(frame, area, "BELOW THEIR DUE   `evenkeel explain` says what to do", choices);
    let lines = finding_text(findings, usize::from(area.width)).into_iter().map(Line::from);
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

fn pair_lines(frame: &mut Frame<'_>, area: Rect, pairs: &[Pair], choices: &Choices) {
    if pairs.is_empty() || area.height < 3 {
        return;
    }
    let area =
        titled(frame, area, "WHO WAITS BECAUSE OF WHOM   requests waiting, on average", choices);
    let lines = pairs.iter().map(|pair| {
        let count = if pair.waiting < 9.95 {
            format!("{:.1}", pair.waiting)
        } else {
            human::count(pair.waiting)
        };
        let culprit = if pair.culprit == pair.victim { ITSELF } else { &pair.culprit };
        Line::from(format!("{:<12.12} {count:>6} behind {culprit}", pair.victim))
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

fn footer(frame: &mut Frame<'_>, area: Rect, choices: &Choices) {
    let line = if let Some(trouble) = &choices.trouble {
        Line::styled(trouble.clone(), choices.style(Color::Red).bold())
    } else {
        let keys = format!("q quit   s sort (by {})   p pause   ? help", choices.order.name());
        Line::styled(keys, choices.faint())
    };
    frame.render_widget(line, area);
}

const HELP: &str = "\
OFFERED/s   bytes that clients asked for
DELIVERED   bytes per second that were answered
GOT         part of the service in the last window
DUE         part by weight, among the active
CAN         part that its own demand could have used
            red: GOT is clearly below CAN; yellow: own limit
QUEUE99     99 of 100 waited less in the gate
DISK99      99 of 100 took less at the backend
LIMIT       requests held by the tenant's own limit
WAITS FOR   whose requests were served meanwhile

q quit   s sort   p pause   up, down scroll";

fn help(frame: &mut Frame<'_>) {
    let area = frame.area().centered(Constraint::Length(60), Constraint::Length(15));
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" help ").padding(ratatui::widgets::Padding::horizontal(2));
    frame.render_widget(Paragraph::new(HELP).block(block), area);
}

fn time(span: Option<evenkeel_core::time::Span>) -> String {
    span.map_or_else(|| "-".to_owned(), human::duration)
}

fn held(requests: f64) -> String {
    match requests {
        0.0 => "-".to_owned(),
        trace if trace < 0.05 => "<0.1".to_owned(),
        few if few < 9.95 => format!("{few:.1}"),
        many => human::count(many),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Detail, Status};
    use crate::terminal::assert_document;
    use crate::testing::{later_report, sample_policy, sample_report};

    fn picture() -> Picture {
        let document = |report| Status::new(&report, &sample_policy(), Detail::Buckets);
        Picture::between(Some(&document(sample_report())), &document(later_report(2)))
    }

    #[test]
    fn the_picture_fits_80_by_24_and_uses_more() {
        let text =
            |width, height| super::super::text(&picture(), &Choices::default(), width, height);
        assert_document("crates/app/testdata/top-80x24.txt", &text(80, 24));
        assert_document("crates/app/testdata/top-120x30.txt", &text(120, 30));
    }

    #[test]
    fn what_tenants_have_over_all_gates_is_shown_where_an_array_is_divided() {
        let part = |tenant: &str, all, here| Part {
            tenant: tenant.to_owned(),
            array: "10.0.1.1:10809".to_owned(),
            all,
            here,
        };
        let parts = vec![part("alice", 0.748, 0.75 * 0.748), part("bob", 0.252, 0.0)];
        let picture = Picture { parts, ..picture() };
        let text = super::super::text(&picture, &Choices::default(), 80, 32);
        assert_document("crates/app/testdata/top-gates-80x32.txt", &text);
        let small = super::super::text(&picture, &Choices::default(), 80, 24);
        assert!(small.contains("OVER ALL GATES"), "{small}");
    }

    #[test]
    fn no_size_of_terminal_and_no_amount_of_tenants_breaks_it() {
        let mut crowded = picture();
        for index in 0..200 {
            let name = format!("tenant-with-a-rather-long-name-{index}");
            crowded.rows.push(Row { name, got: 2.0, entitled: f64::NAN, ..Row::default() });
        }
        let scrolled = Choices { help: true, scrolled: 500, ..Choices::default() };
        for (width, height) in [(1, 1), (10, 3), (40, 10), (80, 24), (300, 100)] {
            for choices in [&Choices::default(), &scrolled] {
                super::super::text(&crowded, choices, width, height);
                super::super::text(&Picture::default(), choices, width, height);
            }
        }
    }
}
