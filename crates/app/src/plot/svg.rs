//! Shapes as an SVG document that follows the page around it: light or dark.

use std::fmt::Write;

use super::scene::{Anchor, Paint, Scene, Shape, Stroke, Text};
use super::{font, palette};

/// The scene as a document.
pub(super) fn render(scene: &Scene) -> String {
    let Scene { width, height, .. } = scene;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" font-family=\"{}\">\n\
         <title>{}</title>\n{}",
        font::FAMILY,
        escaped(&scene.title),
        style()
    );
    for shape in &scene.shapes {
        match shape {
            Shape::Rectangle { corner: (x, y), width, height, paint } => {
                let _ = writeln!(
                    out,
                    "<rect class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
                     height=\"{height:.1}\"/>",
                    class(*paint)
                );
            }
            Shape::Path { points, stroke } => path(&mut out, points, *stroke),
            Shape::Text(text) => line_of_text(&mut out, text),
        }
    }
    out + "</svg>\n"
}

/// One class for each paint, with another colour on dark pages.
fn style() -> String {
    let rules = |pick: fn(palette::Colour) -> u32| {
        let mut rules = String::new();
        for paint in palette::paints() {
            let (class, colour) = (class(paint), pick(palette::colour(paint)));
            let _ = write!(
                rules,
                ".{class}{{fill:#{colour:06x}}}.{class}-line{{stroke:#{colour:06x}}}"
            );
        }
        rules
    };
    format!(
        "<style>polyline{{fill:none;stroke-linejoin:round}}{}\n\
         @media (prefers-color-scheme:dark){{{}}}</style>\n",
        rules(|colour| colour.light),
        rules(|colour| colour.dark)
    )
}

fn class(paint: Paint) -> String {
    match paint {
        Paint::Paper => "paper".to_owned(),
        Paint::Ink => "ink".to_owned(),
        Paint::Muted => "muted".to_owned(),
        Paint::Grid => "grid".to_owned(),
        Paint::Series(index) => format!("series{}", index % super::SERIES_MAX),
    }
}

fn path(out: &mut String, points: &[(f64, f64)], stroke: Stroke) {
    let dash = stroke.dash.map_or(String::new(), |dash| format!(" stroke-dasharray=\"{dash}\""));
    let _ = write!(
        out,
        "<polyline class=\"{}-line\" stroke-width=\"{}\"{dash} points=\"",
        class(stroke.paint),
        stroke.width
    );
    for (index, (x, y)) in points.iter().enumerate() {
        let _ = write!(out, "{}{x:.1},{y:.1}", if index == 0 { "" } else { " " });
    }
    *out += "\"/>\n";
}

fn line_of_text(out: &mut String, text: &Text) {
    let (x, y) = text.at;
    let anchor = match text.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let bold = if text.is_bold { " font-weight=\"bold\"" } else { "" };
    let turned = if text.is_upright {
        format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"")
    } else {
        String::new()
    };
    let _ = writeln!(
        out,
        "<text class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{}\" \
         text-anchor=\"{anchor}\"{bold}{turned}>{}</text>",
        class(text.paint),
        text.size,
        escaped(&text.content)
    );
}

/// Text as XML takes it; characters that XML forbids become a question mark.
fn escaped(text: &str) -> String {
    let allowed = text.chars().map(|c| if c.is_control() { '?' } else { c });
    allowed.collect::<String>().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
