//! A picture as shapes, in the units of its own width and height; y grows downwards.

/// A picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scene {
    pub(super) width: f64,
    pub(super) height: f64,
    /// What it shows, for those who cannot see it.
    pub(super) title: String,
    /// Later ones lie above earlier ones.
    pub(super) shapes: Vec<Shape>,
}

pub(super) type Point = (f64, f64);

/// One shape.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Rectangle { corner: Point, width: f64, height: f64, paint: Paint },
    Path { points: Vec<Point>, stroke: Stroke },
    Text(Text),
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stroke {
    pub(super) paint: Paint,
    pub(super) width: f64,
    /// Length of dash and gap; `None` for a line without gaps.
    pub(super) dash: Option<f64>,
}

/// A line of text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Text {
    pub(super) at: Point,
    pub(super) content: String,
    pub(super) size: f64,
    pub(super) anchor: Anchor,
    pub(super) is_bold: bool,
    /// Read from below, around `at`.
    pub(super) is_upright: bool,
    pub(super) paint: Paint,
}

/// Which part of a text lies at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// What a colour is for; the palette knows which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    /// Behind everything.
    Paper,
    /// Title and labels.
    Ink,
    /// Lesser texts, and the axes.
    Muted,
    /// Lines to read values by.
    Grid,
    /// Data, by series.
    Series(usize),
}
