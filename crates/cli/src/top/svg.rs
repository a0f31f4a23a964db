//! A drawn screen as an SVG picture, for the guide.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

/// A character's width and height, in pixels.
const CELL: (f32, f32) = (8.4, 18.0);
const MARGIN: f32 = 12.0;
const BACKGROUND: &str = "#1d2126";
const FOREGROUND: &str = "#d5d8dc";

/// Draws the picture. The same screen gives the same text.
pub(super) fn svg(buffer: &Buffer) -> String {
    let area = buffer.area;
    let (width, height) =
        (f32::from(area.width) * CELL.0 + 2.0 * MARGIN, f32::from(area.height) * CELL.1 + 2.0 * MARGIN);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n"
    );
    for y in 0..area.height {
        let mut x = 0;
        while x < area.width {
            let style = appearance(&buffer[(x, y)]);
            let begin = x;
            let mut run = String::new();
            while x < area.width && appearance(&buffer[(x, y)]) == style {
                run.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            draw_run(&mut text, begin, x - begin, y, &run, &style);
        }
    }
    text.push_str("</svg>\n");
    text
}

/// A cell's colour, its background, and whether it is bold or faint.
type Appearance = (&'static str, Option<&'static str>, bool, bool);

fn appearance(cell: &Cell) -> Appearance {
    let color = match cell.fg {
        Color::Red => "#ff6b68",
        Color::Green => "#8fd18f",
        Color::Yellow => "#e6c66a",
        _ => FOREGROUND,
    };
    let has = |modifier| cell.modifier.contains(modifier);
    match has(Modifier::REVERSED) {
        true => (BACKGROUND, Some(color), has(Modifier::BOLD), false),
        false => (color, None, has(Modifier::BOLD), has(Modifier::DIM)),
    }
}

fn draw_run(
    text: &mut String,
    column: u16,
    cells: u16,
    row: u16,
    run: &str,
    (color, behind, bold, faint): &Appearance,
) {
    let (left, top) = (MARGIN + f32::from(column) * CELL.0, MARGIN + f32::from(row) * CELL.1);
    let width = f32::from(cells) * CELL.0;
    if let Some(behind) = behind {
        let _ = writeln!(
            text,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{behind}\"/>",
            CELL.1
        );
    }
    if run.trim().is_empty() {
        return;
    }
    let escaped = run.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let weight = if *bold { " font-weight=\"bold\"" } else { "" };
    let opacity = if *faint { " opacity=\"0.6\"" } else { "" };
    let _ = writeln!(
        text,
        "<text x=\"{left:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" xml:space=\"preserve\" fill=\"{color}\"{weight}{opacity}>{escaped}</text>",
        top + 13.5
    );
}
