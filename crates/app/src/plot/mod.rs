//! Charts: data in, one picture out, as SVG for pages and as PNG for everything else.
//!
//! ```text
//! Chart --layout--> Scene (rectangles, lines, texts) --svg--> text    follows light and dark pages
//!                                                    --png--> pixels  dark on white
//! ```
//!
//! Both come from the same shapes, and the font is part of this program: a machine without fonts
//! draws the same picture.

mod chart;
mod font;
mod layout;
mod palette;
mod png;
mod scene;
mod svg;
mod ticks;

pub use chart::{Axis, Bars, Body, Chart, Line, Scale};

use std::path::Path;

use anyhow::Context;

use crate::terminal;

/// The most series that one picture tells apart; more would be a heap of lines.
pub const SERIES_MAX: usize = 8;

/// A chart and the file name that it is written under, without its ending.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// File name without ending.
    pub name: String,
    /// What it shows.
    pub chart: Chart,
}

impl Figure {
    /// A chart under a name.
    pub fn new(name: impl Into<String>, chart: Chart) -> Self {
        Self { name: name.into(), chart }
    }
}

impl Chart {
    /// The chart as an SVG document.
    pub fn svg(&self) -> String {
        svg::render(&layout::draw(self))
    }

    /// The chart as a PNG file.
    pub fn png(&self) -> Vec<u8> {
        png::render(&layout::draw(self))
    }
}

/// Draws figures if a folder is named for them: writes each there, as `NAME.svg` and `NAME.png`,
/// and says so. Makes the folder if need be.
///
/// # Errors
/// If the folder or a file cannot be written.
pub fn draw(folder: Option<&Path>, figures: impl FnOnce() -> Vec<Figure>) -> anyhow::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for figure in figures() {
        let contents = [("svg", figure.chart.svg().into_bytes()), ("png", figure.chart.png())];
        for (ending, bytes) in contents {
            let file = folder.join(format!("{}.{ending}", figure.name));
            std::fs::write(&file, bytes)
                .with_context(|| format!("cannot write {}", file.display()))?;
            terminal::say(&format!("wrote {}", file.display()));
        }
    }
    Ok(())
}
