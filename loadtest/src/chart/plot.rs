//! Lines over two axes, as SVG.

use std::fmt::Write as _;

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Log,
}

/// One axis; without ticks it finds its own.
pub(super) struct Axis {
    pub(super) scale: Scale,
    pub(super) ticks: Vec<(f64, String)>,
}

/// One line.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) colour: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// One chart.
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 40.0;
const HEADING: f64 = 40.0;

/// All charts on one page.
pub(super) fn page(heading: &str, plots: &[Plot]) -> String {
    let count = u32::try_from(plots.len()).unwrap_or(u32::MAX);
    let height = HEADING + HEIGHT * f64::from(count);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" \
         fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"26\" font-size=\"15\">{}</text>\n",
        escaped(heading)
    );
    let mut top = HEADING;
    for plot in plots {
        let _ = writeln!(svg, "<g transform=\"translate(0,{top})\">{}</g>", plot.draw());
        top += HEIGHT;
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where values lie on the page.
struct Span {
    scale: Scale,
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Span {
    fn at(&self, value: f64) -> f64 {
        let place = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
        };
        let (least, most) = (place(self.least), place(self.most));
        let share = (place(value) - least) / (most - least).max(1e-9);
        self.from + share * (self.to - self.from)
    }
}

impl Plot {
    fn draw(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        let x_ticks = ticks(&self.x, points().map(|(x, _)| x));
        let y_ticks = ticks(&self.y, points().map(|(_, y)| y));
        let x = span(self.x.scale, &x_ticks, LEFT, WIDTH - RIGHT);
        let y = span(self.y.scale, &y_ticks, HEIGHT - BOTTOM, TOP);
        let mut svg = format!("<text x=\"{LEFT}\" y=\"20\">{}</text>\n", escaped(&self.title));
        for (value, name) in &x_ticks {
            let (at, low) = (x.at(*value), HEIGHT - BOTTOM);
            let _ = writeln!(
                svg,
                "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{low}\" stroke=\"#eee\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
                low + 18.0
            );
        }
        for (value, name) in &y_ticks {
            let (at, right) = (y.at(*value), WIDTH - RIGHT);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#eee\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                LEFT - 8.0,
                at + 4.0
            );
        }
        let mut legend = LEFT;
        for line in &self.lines {
            let path: Vec<_> = line
                .points
                .iter()
                .map(|(px, py)| format!("{:.1},{:.1}", x.at(*px), y.at(*py)))
                .collect();
            let (path, colour, name) = (path.join(" "), line.colour, escaped(&line.name));
            let _ = writeln!(
                svg,
                "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\
                 <text x=\"{legend:.1}\" y=\"42\" fill=\"{colour}\">{name}</text>"
            );
            legend += 24.0 + 7.0 * f64::from(u32::try_from(name.len()).unwrap_or_default());
        }
        svg
    }
}

fn span(scale: Scale, ticks: &[(f64, String)], from: f64, to: f64) -> Span {
    let least = ticks.first().map_or(0.0, |(value, _)| *value);
    let most = ticks.last().map_or(1.0, |(value, _)| *value);
    Span { scale, least, most, from, to }
}

/// The ticks of an axis, which reach around all values.
fn ticks(axis: &Axis, values: impl Iterator<Item = f64>) -> Vec<(f64, String)> {
    let (least, most) = values
        .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    if least > most {
        return vec![(0.1, String::new()), (1.0, String::new())];
    }
    if !axis.ticks.is_empty() {
        let reach = axis.ticks.iter().position(|(at, _)| *at >= most);
        let count = reach.map_or(axis.ticks.len(), |at| at + 1).max(2);
        return axis.ticks.iter().take(count).cloned().collect();
    }
    let mut ticks = Vec::new();
    match axis.scale {
        Scale::Log => {
            let mut at = 10_f64.powf(least.max(1e-6).log10().floor());
            while at < most * 10.0 && ticks.len() < 12 {
                ticks.push(at);
                at *= 10.0;
            }
        }
        Scale::Linear => {
            let step = step(most);
            let mut at = 0.0;
            while at < most + step && ticks.len() < 12 {
                ticks.push(at);
                at += step;
            }
        }
    }
    ticks.into_iter().map(|at| (at, short(at))).collect()
}

/// A round step of which some five reach `most`.
fn step(most: f64) -> f64 {
    let rough = (most / 5.0).max(1e-6);
    let ten = 10_f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * ten >= rough);
    times.unwrap_or(10.0) * ten
}

fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{}", (value * 1e6).round() / 1e6),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis { scale, ticks: Vec::new() }
    }

    fn names(axis: &Axis, values: &[f64]) -> Vec<String> {
        ticks(axis, values.iter().copied()).into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn ticks_are_round_and_reach_around_all_values() {
        assert_eq!(names(&axis(Scale::Linear), &[3.0, 17.0]), ["0", "5", "10", "15", "20"]);
        assert_eq!(names(&axis(Scale::Linear), &[70_000.0])[1..3], ["20k", "40k"]);
        assert_eq!(names(&axis(Scale::Log), &[0.3, 42.0]), ["0.1", "1", "10", "100"]);
        assert_eq!(names(&axis(Scale::Log), &[]).len(), 2, "no values, and still a chart");
    }

    #[test]
    fn values_lie_between_their_ticks() {
        let ticks = [(1.0, String::new()), (100.0, String::new())];
        let log = span(Scale::Log, &ticks, 0.0, 10.0);
        assert!((log.at(10.0) - 5.0).abs() < 1e-9);
        let linear = span(Scale::Linear, &ticks, 10.0, 0.0);
        assert!((linear.at(1.0) - 10.0).abs() < 1e-9 && linear.at(100.0).abs() < 1e-9);
    }

    #[test]
    fn a_page_is_well_formed_and_says_what_it_shows() {
        let line =
            Line { name: "a < b".into(), colour: "#000", points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let (x, y) = (axis(Scale::Linear), axis(Scale::Linear));
        let svg = page("A & B", &[Plot { title: "T".into(), x, y, lines: vec![line] }]);
        assert!(svg.contains("A &amp; B") && svg.contains("a &lt; b"));
        for tag in ["svg", "g", "text"] {
            assert_eq!(
                svg.matches(&format!("<{tag}")).count(),
                svg.matches(&format!("</{tag}>")).count()
            );
        }
        assert_eq!(svg.matches("<polyline").count(), 1);
    }
}
