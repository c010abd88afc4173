//! The paper's figures 5.1 to 5.7, from one run of each method at feasible load.

use evenkeel_core::control::Controller;
use evenkeel_core::control::window::RequestWindow;
use evenkeel_core::time::Span;
use evenkeel_sim::control::paper::{Level, Method, Setting};
use evenkeel_sim::control::record::{Records, Second};

use super::runs::Scope;
use crate::plot::{Axis, Body, Chart, Figure, Line};

const WORKLOADS: [&str; 4] = ["web0", "web1", "tpcc0", "tpcc1"];
const WEB: [usize; 2] = [0, 1];
const TPCC: [usize; 2] = [2, 3];
const ALL: [usize; 4] = [0, 1, 2, 3];

/// Slots of each workload in the figure on the array's capacity.
const BASE_SLOTS: [u32; 7] = [8, 16, 32, 48, 64, 80, 128];

/// All of them.
pub(super) fn figures(scope: &Scope) -> Vec<Figure> {
    let run = |level, method| scope.setting(level, 1000, *scope.seeds.start()).run(method);
    let equal = run(Level::A, Method::EqualWindows);
    let mut figures = vec![over_time(
        "5-1a",
        "Requests that arrive",
        "requests/s",
        &ALL,
        &[("", &equal)],
        &|second| Some(second.arrivals as f64),
    )];
    figures.extend(capacity(scope));
    figures.extend([
        device_ms("5-2a", "Device latency, 128 slots each", &ALL, &[("", &equal)]),
        response_ms("5-2b", "Response time, 128 slots each", &ALL, &[("", &equal)]),
        slots("5-2c", "Slots used, of 128 each", &ALL, &[("", &equal)]),
    ]);
    let free = run(Level::A, Method::NoControl);
    figures.push(response_ms("5-3", "Response time without control", &ALL, &[("", &free)]));
    for (level, numbers, loose) in
        [(Level::A, ["5-4", "5-5"], TPCC), (Level::B, ["5-6", "5-7"], WEB)]
    {
        let [windows, drg, ours] =
            [Method::RequestWindows, Method::DrgBorrowing, Method::Ours].map(|it| run(level, it));
        let all = [("RW(D)", &windows), ("DRG", &drg), ("ours", &ours)];
        let [responses, used] = numbers;
        let title = format!("Response time, SLO_{level:?}");
        figures.push(response_ms(&format!("{responses}a"), &title, &WEB, &all));
        figures.push(response_ms(&format!("{responses}b"), &title, &TPCC, &all));
        for (part, (name, records)) in ["a", "b", "c"].into_iter().zip(all) {
            let title = format!("Slots used by the loose under {name}, SLO_{level:?}");
            figures.push(slots(&format!("{used}{part}"), &title, &loose, &[("", records)]));
        }
    }
    figures
}

fn response_ms(number: &str, title: &str, loads: &[usize], runs: &[(&str, &Records)]) -> Figure {
    over_time(number, title, "response time (ms)", loads, runs, &Second::response_ms)
}

fn device_ms(number: &str, title: &str, loads: &[usize], runs: &[(&str, &Records)]) -> Figure {
    over_time(number, title, "device latency (ms)", loads, runs, &Second::device_ms)
}

fn slots(number: &str, title: &str, loads: &[usize], runs: &[(&str, &Records)]) -> Figure {
    over_time(number, title, "slots", loads, runs, &|second| Some(second.slots()))
}

/// A line for each workload and run, of one point a second.
fn over_time(
    number: &str,
    title: &str,
    label: &str,
    loads: &[usize],
    runs: &[(&str, &Records)],
    of: &dyn Fn(&Second) -> Option<f64>,
) -> Figure {
    let mut lines = Vec::new();
    for (run, (name, records)) in runs.iter().enumerate() {
        for (place, load) in loads.iter().enumerate() {
            let seconds = records.loads[*load].seconds.iter().enumerate();
            let points = seconds.filter_map(|(at, second)| Some((at as f64, of(second)?)));
            let workload = WORKLOADS[*load];
            let several = runs.len() > 1;
            let line = Line {
                name: format!("{workload} {name}").trim_end().to_owned(),
                points: points.collect(),
                is_dashed: false,
                colour: if several { run } else { place },
            };
            lines.push(if several && place > 0 { line.dashed() } else { line });
        }
    }
    Figure::new(format!("drg-{number}"), Chart::over_time(title, label, lines))
}

/// Throughput and device latency with so many slots for each workload, all of them backlogged.
fn capacity(scope: &Scope) -> [Figure; 2] {
    let seconds = Span::from_secs(20);
    let setting = Setting {
        scale: 3.0,
        length: seconds,
        ..scope.setting(Level::A, 1000, *scope.seeds.start())
    };
    let mut throughput = Vec::new();
    let mut latency = Vec::new();
    for base in BASE_SLOTS {
        let window = |_| -> Box<dyn Controller> { Box::new(RequestWindow::new(4 * base, 1, 4)) };
        let records = setting.run_with(Some(&window));
        let last = records.loads.iter().flat_map(|load| &load.seconds[10..]);
        let (count, sum_ns) = last.fold((0, 0), |(count, sum_ns), second| {
            (count + second.tally.completions, sum_ns + second.device_ns)
        });
        throughput.push((f64::from(base), count as f64 / 10.0));
        latency.push((f64::from(base), sum_ns as f64 / count.max(1) as f64 / 1e6));
    }
    let chart = |title: &str, label: &str, points| Chart {
        title: title.to_owned(),
        note: "four workloads, all backlogged".to_owned(),
        x: Axis::linear("slots of each workload"),
        y: Axis::linear(label),
        body: Body::Lines(vec![Line { points, ..Line::default() }]),
    };
    [
        Figure::new("drg-5-1b", chart("Throughput by slots", "requests/s", throughput)),
        Figure::new("drg-5-1c", chart("Device latency by slots", "device latency (ms)", latency)),
    ]
}
