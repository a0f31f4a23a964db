//! Draws the curves of a sweep, one SVG for each, and writes down the plans behind them.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use plotters::prelude::*;
use serde::Deserialize;

use crate::failure::Failure;
use crate::output;

const SIZE: (u32, u32) = (900, 540);

/// Different also to colour-blind readers, and in grey.
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 90, 160), RGBColor(200, 80, 0), RGBColor(0, 130, 90), RGBColor(150, 60, 140)];

/// The parts of a line that the curves need.
#[derive(Debug, Deserialize)]
struct Point {
    sweep: String,
    series: String,
    x: f64,
    us_per_job: f64,
    bare_us_per_job: Option<f64>,
    /// The plans of its statements, by name.
    #[serde(default)]
    plans: BTreeMap<String, Vec<String>>,
}

/// The points of one curve, by name.
type Curves = BTreeMap<String, Vec<(f64, f64)>>;

/// The plan of each statement where a curve ends: by sweep and series, then by the statement's name.
type Plans = BTreeMap<(String, String), (f64, BTreeMap<String, Vec<String>>)>;

/// Reads the lines that a sweep wrote, and draws them into a directory.
pub(crate) fn run(file: &Path, directory: &Path) -> Result<(), Failure> {
    let cannot_read = |error| Failure::environment(format!("cannot read {}", file.display()), "give a file", error);
    let text = fs::read_to_string(file).map_err(cannot_read)?;
    let mut sweeps: BTreeMap<String, Curves> = BTreeMap::new();
    let mut plans = Plans::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let point: Point =
            serde_json::from_str(line).map_err(|error| not_a_point(file, number + 1, &error.to_string()))?;
        if !(point.x > 0.0 && point.us_per_job > 0.0) {
            return Err(not_a_point(file, number + 1, "x and us_per_job must be above 0"));
        }
        let last = plans.entry((point.sweep.clone(), point.series.clone())).or_default();
        if point.x >= last.0 {
            *last = (point.x, point.plans);
        }
        let curves = sweeps.entry(point.sweep).or_default();
        if let Some(bare) = point.bare_us_per_job {
            curves.entry(format!("{}: plain SQL", point.series)).or_default().push((point.x, bare));
        }
        curves.entry(point.series).or_default().push((point.x, point.us_per_job));
    }
    if sweeps.is_empty() {
        return Err(Failure::refused(
            format!("no curve in {}", file.display()),
            "write one with `uniqueue-bench --sweep NAME --json`",
        ));
    }
    let cannot_make =
        |error| Failure::environment(format!("cannot make {}", directory.display()), "give another --out", error);
    fs::create_dir_all(directory).map_err(cannot_make)?;
    for (sweep, mut curves) in sweeps {
        curves.values_mut().for_each(|points| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        let path = directory.join(format!("{}.svg", file_name(&sweep)));
        draw(&path, &sweep, &curves).map_err(|error| {
            Failure::refused(format!("cannot draw {}: {error}", path.display()), "give another --out")
        })?;
        output::print(&format!("{}\n", path.display()))?;
    }
    let path = directory.join("plans.txt");
    fs::write(&path, plans_text(&plans)).map_err(|error| {
        Failure::environment(format!("cannot write {}", path.display()), "give another --out", error)
    })?;
    output::print(&format!("{}\n", path.display()))
}

/// Each plan once a sweep: most curves of a sweep have the same plans.
fn plans_text(plans: &Plans) -> String {
    let mut text = "The statements behind the curves, as EXPLAIN showed them where each curve ends. Written by\n\
        uniqueue-bench --plot, from the lines of --sweep, which carry the plans of every point.\n"
        .to_owned();
    let mut written = BTreeSet::new();
    for ((sweep, series), (x, statements)) in plans {
        for (name, lines) in statements {
            let lines = lines.join("\n");
            if written.insert((sweep, name, lines.clone())) {
                text += &format!("\n== {sweep}, {series}, {}: {name}\n{lines}\n", plain(*x));
            }
        }
    }
    text
}

fn not_a_point(file: &Path, line: usize, problem: &str) -> Failure {
    Failure::refused(
        format!("{}:{line} is no point of a curve: {problem}", file.display()),
        "give what `uniqueue-bench --sweep NAME --json` wrote",
    )
}

/// The name comes from a file, and must not lead elsewhere.
fn file_name(sweep: &str) -> String {
    sweep.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Both axes are logarithmic: a cost that grows in proportion is a slope of one, one that does not is level.
fn draw(path: &Path, sweep: &str, curves: &Curves) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let all = || curves.values().flatten().copied();
    let (left, right) = range(all().map(|(x, _)| x));
    let (low, high) = range(all().map(|(_, y)| y));
    let mut chart = ChartBuilder::on(&root)
        .caption(title(sweep), ("sans-serif", 24))
        .margin(12)
        .margin_right(48)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((left..right).log_scale(), (low / 1.5..high * 2.5).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(axis(sweep))
        .y_desc("µs a job")
        .max_light_lines(0)
        .bold_line_style(RGBColor(225, 225, 225))
        .label_style(("sans-serif", 16))
        .axis_desc_style(("sans-serif", 18))
        .x_label_formatter(&|x| plain(*x))
        .y_label_formatter(&|y| plain(*y))
        .draw()?;
    let ours = curves.keys().filter(|name| !is_bare(name)).cloned().collect::<Vec<_>>();
    for (name, points) in curves {
        // The last one, because the name of one series can be the beginning of another's.
        let place = ours.iter().rposition(|series| name.starts_with(series.as_str())).unwrap_or_default();
        let colour = COLOURS[place % COLOURS.len()];
        let line = points.iter().copied();
        if is_bare(name) {
            let dashed = chart.draw_series(DashedLineSeries::new(line, 6, 5, colour.stroke_width(1)))?;
            dashed.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 8, y)], colour.stroke_width(1)));
        } else {
            let solid = chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
            solid.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(("sans-serif", 16))
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    root.present()?;
    Ok(())
}

fn is_bare(name: &str) -> bool {
    name.ends_with(": plain SQL")
}

/// From the smallest to the largest, and never empty.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if high > low { (low, high) } else { (low / 2.0, high * 2.0) }
}

fn plain(value: f64) -> String {
    if value >= 10.0 { output::count(value.round() as u64) } else { format!("{value}") }
}

fn title(sweep: &str) -> String {
    match sweep {
        "table-size" => "Cost of a job, by jobs in the table".to_owned(),
        "runners" => "Cost of a job, by runners (processes)".to_owned(),
        "queues" => "Cost of a job, by queues of one runner".to_owned(),
        "args-size" => "Cost of a job, by bytes of args".to_owned(),
        "keys" => "Cost of a unique insert, by different keys".to_owned(),
        other => format!("Cost of a job, by {other}"),
    }
}

fn axis(sweep: &str) -> String {
    match sweep {
        "table-size" => "jobs in the table".to_owned(),
        "args-size" => "bytes of args".to_owned(),
        other => other.to_owned(),
    }
}
