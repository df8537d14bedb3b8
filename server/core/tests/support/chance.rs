//! Whether what was drawn follows the law that it should. Seeds are fixed, so a test passes
//! always or never.

use std::collections::BTreeMap;
use std::fmt::Debug;

/// Standard deviations that a normal variable exceeds with a chance of 0.01 %.
const DEVIATIONS: f64 = 3.719_016;

/// The upper 0.01 % point of the chi-square distribution (Wilson and Hilferty, 1931; too high by 7 % for
/// one degree of freedom, by less than 3 % from four on).
pub(crate) fn chi_square_max(degrees: usize) -> f64 {
    let spread = 2.0 / (9.0 * degrees as f64);
    degrees as f64 * (1.0 - spread + DEVIATIONS * spread.sqrt()).powi(3)
}

/// Stops the test if the outcomes are not those of independent draws by `law`: each kind with its
/// chance.
pub(crate) fn assert_follows<K: Ord + Debug>(
    what: &str,
    outcomes: impl IntoIterator<Item = K>,
    law: impl IntoIterator<Item = (K, f64)>,
) {
    let law: BTreeMap<K, f64> = law.into_iter().filter(|(_, chance)| *chance > 0.0).collect();
    let sum: f64 = law.values().sum();
    assert!((sum - 1.0).abs() < 1e-9, "{what}: the chances sum to {sum}");
    let mut counts: BTreeMap<K, u32> = BTreeMap::new();
    let mut calls = 0_u32;
    for kind in outcomes {
        assert!(law.contains_key(&kind), "{what}: {kind:?} cannot be");
        *counts.entry(kind).or_default() += 1;
        calls += 1;
    }
    let off = |(kind, chance): (&K, &f64)| {
        let expected = f64::from(calls) * chance;
        (f64::from(counts.get(kind).copied().unwrap_or(0)) - expected).powi(2) / expected
    };
    let (statistic, degrees) = (law.iter().map(off).sum::<f64>(), law.len() - 1);
    assert!(
        degrees == 0 || statistic < chi_square_max(degrees),
        "{what}: chi-square {statistic} with {degrees} degrees of freedom: {counts:?}"
    );
}

/// The same where all kinds are equally likely.
pub(crate) fn assert_uniform<K: Ord + Debug>(
    what: &str,
    outcomes: impl IntoIterator<Item = K>,
    kinds: impl IntoIterator<Item = K>,
) {
    let kinds: Vec<K> = kinds.into_iter().collect();
    let chance = 1.0 / kinds.len() as f64;
    assert_follows(what, outcomes, kinds.into_iter().map(|kind| (kind, chance)));
}

#[test]
fn the_quantiles_are_those_of_the_tables() {
    for (degrees, table) in [(1, 15.137), (4, 23.513), (10, 35.564), (100, 161.319)] {
        let ours = chi_square_max(degrees);
        let off = if degrees == 1 { 0.08 } else { 0.03 };
        assert!((ours / table - 1.0).abs() < off, "{degrees}: {ours} instead of {table}");
    }
}
