//! The tables, in Markdown.

use crate::measure::{BATCH, Cell};

/// One question on one kind of zone, over the sizes.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// Microseconds that the median may take, for each size; none: no bar was set.
    pub(crate) bars_us: Option<&'static [f64]>,
    pub(crate) cells: Vec<Cell>,
}

/// What is in the figures and what is not.
pub(crate) fn heading(timer_us: f64) {
    println!("# Choosing ads: exact, one thread\n");
    println!(
        "Inside a request's time: Decision::new from a query and a zone's block (the query's \
         keywords are normalised strings; looking them up is inside), look (no campaign has \
         caps, so its winners are the answer), copying the winners' scores, freeing the decision. Outside: making the query \
         with its generator, finding the zone, loading the table of campaigns. Requests are made \
         ready {BATCH} at a time; each has other keywords and another seed.\n"
    );
    println!(
        "Median and p99 are of requests that are timed one by one. The timer's own cost is in \
         them: it shows {timer_us:.3} us (median) for nothing. \"In a batch\" is the median over \
         batches of {BATCH} requests, timed as one, for each request: the timer is as good as \
         out of it. A median above its bar is bold. us: microseconds.\n"
    );
}

/// What was measured of ours: a table each for the median, the p99, the batches and the entries.
pub(crate) fn ours(sizes: &[usize], lines: &[Line]) {
    table("median (bar)", sizes, lines, |line, at, cell| {
        let median = cell.single_us.median();
        match line.bars_us.map(|bars| bars[at]) {
            None => time(median),
            Some(bar) if median > bar => format!("**{}** ({bar} us)", time(median)),
            Some(bar) => format!("{} ({bar} us)", time(median)),
        }
    });
    table("p99", sizes, lines, |_, _, cell| time(cell.single_us.percentile(99)));
    table("in a batch", sizes, lines, |_, _, cell| match cell.batch_us.len() {
        0 => "–".to_owned(),
        _ => time(cell.batch_us.median()),
    });
    table("entries touched: median / most", sizes, lines, |_, _, cell| {
        let [median, most] = [50, 100].map(|hundredths| cell.touched.percentile(hundredths));
        format!("{} / {}", grouped(median as usize), grouped(most as usize))
    });
}

/// The yardstick, beside ours.
pub(crate) fn yardstick(sizes: &[usize], lines: &[Line]) {
    println!(
        "The same zones in tantivy, one segment in memory, one thread: every ad that may be \
         shown is scored (eCPM from a fast field, keywords counted by the query), the best are \
         kept. Median / p99; in brackets how many times our median goes into its median. Each of \
         its answers had our scores, to the bit.\n"
    );
    table("tantivy: median / p99 (times ours)", sizes, lines, |_, _, cell| {
        let median = cell.yardstick_us.median();
        let times = median / cell.single_us.median();
        let places = usize::from(times < 10.0);
        let p99 = cell.yardstick_us.percentile(99);
        format!("{} / {} ({times:.places$})", time(median), time(p99))
    });
}

/// One table: a row for each line, a column for each size.
fn table(
    what: &str,
    sizes: &[usize],
    lines: &[Line],
    text: impl Fn(&Line, usize, &Cell) -> String,
) {
    println!("| {what}; ads in the zone: |{}", joined(sizes.iter().map(|&size| grouped(size))));
    println!("|---|{}", "---|".repeat(sizes.len()));
    for line in lines {
        let cells = line.cells.iter().enumerate().map(|(at, cell)| text(line, at, cell));
        println!("| {} |{}", line.name, joined(cells));
    }
    println!();
}

fn joined(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| format!(" {cell} |")).collect()
}

/// A time given in microseconds, in the unit that suits it, to about three figures.
pub(crate) fn time(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 1e3 => (us, "us"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let places = match value {
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.places$} {unit}")
}

/// A number with its thousands set apart.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
