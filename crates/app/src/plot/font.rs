//! The font of every picture, `DejaVu` Sans, from its crate. Widths are needed for the layout of
//! both forms, outlines for the pixels.

use std::sync::LazyLock;

use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// What an SVG asks for: the same font, or others as wide as it.
pub(super) const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

static REGULAR: LazyLock<Face<'static>> = LazyLock::new(|| face(dejavu::sans::regular()));
static BOLD: LazyLock<Face<'static>> = LazyLock::new(|| face(dejavu::sans::bold()));

fn face(file: &'static [u8]) -> Face<'static> {
    Face::parse(file, 0).expect("the font is part of this program")
}

/// How wide a text is at a size.
pub(super) fn width(text: &str, size: f64, is_bold: bool) -> f64 {
    glyphs(text, size, is_bold).last().map_or(0.0, |glyph| glyph.x + glyph.advance)
}

/// One character of a text: its glyph, where it begins, and how far the next one is.
pub(super) struct Glyph {
    pub(super) id: GlyphId,
    pub(super) x: f64,
    pub(super) advance: f64,
}

/// The characters of a text from left to right. One that the font lacks is shown as its box.
pub(super) fn glyphs(text: &str, size: f64, is_bold: bool) -> Vec<Glyph> {
    let face = if is_bold { &*BOLD } else { &*REGULAR };
    let scale = size / f64::from(face.units_per_em());
    let mut x = 0.0;
    text.chars()
        .map(|character| {
            let id = face.glyph_index(character).unwrap_or(GlyphId(0));
            let advance = f64::from(face.glyph_hor_advance(id).unwrap_or(0)) * scale;
            let glyph = Glyph { id, x, advance };
            x += advance;
            glyph
        })
        .collect()
}

/// Draws a glyph, in units of the font, y upwards.
pub(super) fn outline(id: GlyphId, is_bold: bool, builder: &mut dyn OutlineBuilder) {
    let face = if is_bold { &*BOLD } else { &*REGULAR };
    // A space has no outline.
    let _ = face.outline_glyph(id, builder);
}

/// Units of the font in one em.
pub(super) fn units_per_em(is_bold: bool) -> f64 {
    let face = if is_bold { &*BOLD } else { &*REGULAR };
    f64::from(face.units_per_em())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_grow_with_text_and_size() {
        assert!(width("", 12.0, false).abs() < f64::EPSILON);
        assert!(width("mm", 12.0, false) > width("ii", 12.0, false));
        assert!((width("mm", 24.0, false) - 2.0 * width("mm", 12.0, false)).abs() < 1e-9);
        assert!(width("latency", 12.0, true) > width("latency", 12.0, false));
    }
}
