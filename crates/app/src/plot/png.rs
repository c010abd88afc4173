//! Shapes as pixels, dark on white, at twice the size for sharp text.

use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint as Brush, PathBuilder, Pixmap, Rect, Stroke as Pen,
    StrokeDash, Transform,
};
use ttf_parser::OutlineBuilder;

use super::scene::{Anchor, Paint, Point, Scene, Shape, Stroke, Text};
use super::{font, palette};

/// Pixels per unit of the scene.
const ZOOM: f32 = 2.0;

/// The scene as a PNG file.
pub(super) fn render(scene: &Scene) -> Vec<u8> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a thousand or so")]
    let pixels = |length: f64| (length * f64::from(ZOOM)).ceil() as u32;
    let mut canvas = Pixmap::new(pixels(scene.width), pixels(scene.height))
        .expect("a scene has a size, and a small one");
    canvas.fill(colour_of(Paint::Paper));
    for shape in &scene.shapes {
        match shape {
            Shape::Rectangle { corner, width, height, paint } => {
                let area = Rect::from_xywh(
                    single(corner.0),
                    single(corner.1),
                    single(*width),
                    single(*height),
                );
                // A bar of no height has no area to fill.
                if let Some(area) = area {
                    canvas.fill_rect(area, &brush(*paint), scaled(), None);
                }
            }
            Shape::Path { points, stroke } => draw_path(&mut canvas, points, *stroke),
            Shape::Text(text) => draw_text(&mut canvas, text),
        }
    }
    canvas.encode_png().expect("writing to memory does not fail")
}

fn draw_path(canvas: &mut Pixmap, points: &[Point], stroke: Stroke) {
    let mut path = PathBuilder::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        if index == 0 {
            path.move_to(single(x), single(y));
        } else {
            path.line_to(single(x), single(y));
        }
    }
    let Some(path) = path.finish() else { return };
    let pen = Pen {
        width: single(stroke.width),
        line_cap: LineCap::Butt,
        line_join: LineJoin::Round,
        dash: stroke.dash.and_then(|dash| StrokeDash::new(vec![single(dash); 2], 0.0)),
        ..Pen::default()
    };
    canvas.stroke_path(&path, &brush(stroke.paint), &pen, scaled(), None);
}

fn draw_text(canvas: &mut Pixmap, text: &Text) {
    let width = font::width(&text.content, text.size, text.is_bold);
    let start = match text.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -width / 2.0,
        Anchor::End => -width,
    };
    let turn = if text.is_upright {
        Transform::from_row(0.0, -1.0, 1.0, 0.0, 0.0, 0.0)
    } else {
        Transform::identity()
    };
    let place = scaled().pre_translate(single(text.at.0), single(text.at.1)).pre_concat(turn);
    let scale = text.size / font::units_per_em(text.is_bold);
    for glyph in font::glyphs(&text.content, text.size, text.is_bold) {
        let mut outline = Outline { path: PathBuilder::new(), scale: single(scale) };
        font::outline(glyph.id, text.is_bold, &mut outline);
        if let Some(path) = outline.path.finish() {
            let place = place.pre_translate(single(start + glyph.x), 0.0);
            canvas.fill_path(&path, &brush(text.paint), FillRule::Winding, place, None);
        }
    }
}

/// Takes the outline of a glyph over, turned so that y grows downwards.
struct Outline {
    path: PathBuilder,
    scale: f32,
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to(x * self.scale, -y * self.scale);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to(x * self.scale, -y * self.scale);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let Self { path, scale } = self;
        path.quad_to(x1 * *scale, -y1 * *scale, x * *scale, -y * *scale);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let Self { path, scale: s } = self;
        path.cubic_to(x1 * *s, -y1 * *s, x2 * *s, -y2 * *s, x * *s, -y * *s);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

fn scaled() -> Transform {
    Transform::from_scale(ZOOM, ZOOM)
}

fn brush(paint: Paint) -> Brush<'static> {
    let mut brush = Brush { anti_alias: true, ..Brush::default() };
    brush.set_color(colour_of(paint));
    brush
}

fn colour_of(paint: Paint) -> Color {
    let [_, red, green, blue] = palette::colour(paint).light.to_be_bytes();
    Color::from_rgba8(red, green, blue, 255)
}

#[expect(clippy::cast_possible_truncation, reason = "places in a picture")]
fn single(value: f64) -> f32 {
    value as f32
}
