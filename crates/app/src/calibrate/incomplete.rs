//! What was measured before somebody interrupted a calibration.
//!
//! The points are there for whoever wants them. A model is made of them if they suffice for one, to
//! be read by people alone: there is no file that another command would take for the whole.

use evenkeel_sim::calibrate::{Load, Model, Point};
use serde::Serialize;

use super::table;
use crate::{human, terminal};

/// The document for programs.
#[derive(Debug, Serialize)]
pub(super) struct Incomplete {
    /// Always false: a complete model has no such field.
    is_complete: bool,
    points: Vec<Raw>,
    /// What the points make, if they suffice.
    model: Option<Model>,
}

/// A point as it was measured.
#[derive(Debug, Serialize)]
struct Raw {
    load: Load,
    size_bytes: u64,
    depth: u32,
    iops: f64,
    mean_ns: u64,
    p99_ns: u64,
}

impl Incomplete {
    pub(super) fn new(points: &[Point], model: Option<Model>) -> Self {
        let raw = |point: &Point| Raw {
            load: point.load,
            size_bytes: point.size_bytes,
            depth: point.depth,
            iops: point.iops,
            mean_ns: point.mean.0,
            p99_ns: point.p99.0,
        };
        Self { is_complete: false, points: points.iter().map(raw).collect(), model }
    }

    /// For people.
    pub(super) fn render(&self) -> String {
        let mark = format!("INCOMPLETE: interrupted after {}\n\n", {
            human::counted(self.points.len(), "point")
        });
        if let Some(model) = &self.model {
            return mark + &table::render(model);
        }
        let header = ["", "SIZE", "DEPTH", "IOPS", "MEAN", "P99"];
        let rows = self.points.iter().map(|point| {
            vec![
                table::word(point.load).to_owned(),
                human::size(point.size_bytes as f64),
                point.depth.to_string(),
                human::count(point.iops),
                human::duration(evenkeel_core::time::Span(point.mean_ns)),
                human::duration(evenkeel_core::time::Span(point.p99_ns)),
            ]
        });
        let rows: Vec<_> = rows.collect();
        mark + &terminal::table(&header, &rows) + "too few for a model\n"
    }
}
