//! Colours: those of Okabe and Ito (2008), which stay apart for most colour-blind readers, in an
//! order in which neighbours differ in brightness too. On dark pages the darker ones are lifted.

use super::scene::Paint;

/// A colour for light and for dark surroundings, as 0xRRGGBB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour {
    pub(super) light: u32,
    pub(super) dark: u32,
}

const SERIES: [Colour; 8] = [
    Colour { light: 0x00_72_B2, dark: 0x3D_A5_E0 },
    Colour { light: 0xE6_9F_00, dark: 0xE6_9F_00 },
    Colour { light: 0x00_9E_73, dark: 0x1F_C7_95 },
    Colour { light: 0xCC_79_A7, dark: 0xDD_92_BB },
    Colour { light: 0x56_B4_E9, dark: 0x9A_D4_F5 },
    Colour { light: 0xD5_5E_00, dark: 0xF0_7B_26 },
    Colour { light: 0x6B_6B_6B, dark: 0xB5_B5_B5 },
    Colour { light: 0xB8_AA_10, dark: 0xF0_E4_42 },
];

/// The colour of a paint.
pub(super) fn colour(paint: Paint) -> Colour {
    match paint {
        Paint::Paper => Colour { light: 0xFF_FF_FF, dark: 0x16_18_1D },
        Paint::Ink => Colour { light: 0x1A_1C_20, dark: 0xEC_EE_F2 },
        Paint::Muted => Colour { light: 0x5A_60_6B, dark: 0xA4_AB_B8 },
        Paint::Grid => Colour { light: 0xE1_E4_EA, dark: 0x31_36_40 },
        Paint::Series(index) => SERIES[index % SERIES.len()],
    }
}

/// Every paint that a picture may use.
pub(super) fn paints() -> impl Iterator<Item = Paint> {
    let series = (0..SERIES.len()).map(Paint::Series);
    [Paint::Paper, Paint::Ink, Paint::Muted, Paint::Grid].into_iter().chain(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance and contrast, as the Web Content Accessibility Guidelines define them.
    fn contrast(first: u32, second: u32) -> f64 {
        let luminance = |colour: u32| {
            let channel = |shift: u32| {
                let value = f64::from(colour >> shift & 0xFF) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(16) + 0.7152 * channel(8) + 0.0722 * channel(0)
        };
        let (first, second) = (luminance(first), luminance(second));
        (first.max(second) + 0.05) / (first.min(second) + 0.05)
    }

    #[test]
    fn text_is_readable_on_light_and_dark() {
        let paper = colour(Paint::Paper);
        for paint in [Paint::Ink, Paint::Muted] {
            let ink = colour(paint);
            assert!(contrast(ink.light, paper.light) >= 4.5, "{paint:?} on light");
            assert!(contrast(ink.dark, paper.dark) >= 4.5, "{paint:?} on dark");
        }
    }

    #[test]
    fn data_is_seen_on_light_and_dark() {
        let paper = colour(Paint::Paper);
        for paint in paints().filter(|paint| matches!(paint, Paint::Series(_))) {
            let data = colour(paint);
            assert!(contrast(data.light, paper.light) >= 2.0, "{paint:?} on light");
            assert!(contrast(data.dark, paper.dark) >= 3.0, "{paint:?} on dark");
        }
    }
}
