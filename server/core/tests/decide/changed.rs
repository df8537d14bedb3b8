//! A zone that was changed over and over decides as one that was built at once from what it came
//! to: with the same seeds the same answers, whichever keywords are asked for. Lists become rows
//! of bits, and lists again, on the way.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use slotwise_core::index::{Change, Index, Key};

use crate::market::{Market, SITE, ZONE, cases, decided};
use crate::world::{Dice, Recipe, World, recipe};

/// What happens to a zone at once.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// Each of so many in a hundred ads gets other keywords and another price.
    Change(usize),
    Remove(usize),
    Add(usize),
    /// So many in a hundred ads get this keyword.
    Spread(usize, &'static str),
    /// So many in a hundred of those that have it lose it.
    Lose(usize, &'static str),
    /// A campaign goes to another tier.
    Tier(usize),
}

fn turn() -> impl Strategy<Value = Turn> {
    let percent = || prop::sample::select(vec![0_usize, 1, 10, 60, 100]);
    let word = || prop::sample::select(vec!["w0", "w1", "hot"]);
    prop_oneof![
        percent().prop_map(Turn::Change),
        percent().prop_map(Turn::Remove),
        prop::sample::select(vec![1_usize, 5, 100]).prop_map(Turn::Add),
        (percent(), word()).prop_map(|(percent, word)| Turn::Spread(percent, word)),
        (percent(), word()).prop_map(|(percent, word)| Turn::Lose(percent, word)),
        any::<usize>().prop_map(Turn::Tier),
    ]
}

/// A zone's ads as they are now; those that are gone keep their numbers.
struct Zone {
    recipe: Recipe,
    world: World,
    is_there: Vec<bool>,
    dice: Dice,
}

impl Zone {
    fn turn(&mut self, turn: Turn) -> Vec<Change> {
        let (percent, word) = match turn {
            Turn::Change(percent) | Turn::Remove(percent) => (percent, ""),
            Turn::Spread(percent, word) | Turn::Lose(percent, word) => (percent, word),
            Turn::Add(ads) => return self.add(ads),
            Turn::Tier(of) => {
                let of = of % self.world.campaigns.len();
                self.world.campaigns[of].tier += 1 - 2 * i32::from(self.dice.percent(50));
                return vec![Change::Campaign(self.world.campaign(of))];
            }
        };
        let all = 0..self.world.ads.len();
        let mut touched: Vec<usize> = all.filter(|at| self.is_there[*at]).collect();
        touched.retain(|_| self.dice.percent(percent));
        let made = Recipe {
            ads: touched.len(),
            seed: self.dice.below(1 << 30) as u64,
            ..self.recipe.clone()
        };
        let mut others = made.make().ads.into_iter();
        touched.into_iter().map(|at| self.one(turn, word, at, &mut others)).collect()
    }

    fn one(
        &mut self,
        turn: Turn,
        word: &'static str,
        at: usize,
        others: &mut impl Iterator<Item = crate::oracle::PlainAd>,
    ) -> Change {
        let ad = &mut self.world.ads[at];
        match turn {
            Turn::Spread(..) => drop(ad.keywords.insert(word)),
            Turn::Lose(..) => drop(ad.keywords.remove(word)),
            Turn::Remove(..) => {
                self.is_there[at] = false;
                let campaign = self.world.campaign_id(self.world.ads[at].campaign);
                let campaign = campaign.as_str().into();
                return Change::Removed(Key::Ad(campaign, at.to_string().as_str().into()));
            }
            _ => *ad = crate::oracle::PlainAd { campaign: ad.campaign, ..others.next().unwrap() },
        }
        Change::Ad(self.world.ad(at))
    }

    fn add(&mut self, ads: usize) -> Vec<Change> {
        let seed = self.dice.below(1 << 30) as u64;
        let more = Recipe { ads, seed, ..self.recipe.clone() }.make().ads;
        let first = self.world.ads.len();
        self.world.ads.extend(more);
        self.is_there.resize(self.world.ads.len(), true);
        (first..first + ads).map(|at| Change::Ad(self.world.ad(at))).collect()
    }

    /// The zone built at once.
    fn fresh(&self) -> Market {
        let there = (0..self.world.ads.len()).filter(|at| self.is_there[*at]);
        let campaigns = (0..self.world.campaigns.len()).map(|of| self.world.campaign(of));
        let mut market =
            Market::new(campaigns.collect(), there.map(|at| self.world.ad(at)).collect());
        market.apply(vec![Change::Zone(self.world.zone())]);
        market
    }

    /// Every keyword alone, none, and sets of them.
    fn questions(&mut self) -> Vec<BTreeSet<&'static str>> {
        let there = self.world.ads.iter().zip(&self.is_there).filter(|(_, is_there)| **is_there);
        let words: BTreeSet<_> =
            there.flat_map(|(ad, _)| ad.keywords.iter().copied()).chain(["hot"]).collect();
        let alone = words.iter().take(40).map(|word| BTreeSet::from([*word]));
        let mut questions: Vec<_> = alone.chain([BTreeSet::new()]).collect();
        questions.push(words.iter().copied().take(64).collect());
        for up_to in [2, 6, 12] {
            questions.push(self.world.ask(&mut self.dice, up_to).keywords);
        }
        questions
    }
}

fn order(index: &Index) -> Vec<String> {
    let block = index.zone(SITE, ZONE).expect("the zone is there");
    let one = |entry| format!("{:?} {} {}", entry, block.tier(entry), block.ecpm_micros(entry));
    block.entries.iter().map(one).collect()
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn a_zone_changed_step_by_step_decides_as_one_built_at_once(
        recipe in recipe(700),
        turns in vec(vec(turn(), 1..=3), 1..=6),
    ) {
        let recipe = Recipe { capped_percent: 0, words: recipe.words.min(300), ..recipe };
        let world = recipe.make();
        let is_there = vec![true; world.ads.len()];
        let mut market = world.market();
        let mut zone = Zone { dice: Dice::new(recipe.seed ^ 3), recipe, world, is_there };
        for turns in turns {
            let changes: Vec<_> = turns.into_iter().flat_map(|turn| zone.turn(turn)).collect();
            market.apply(last_of_each(changes));
            let fresh = zone.fresh();
            prop_assert_eq!(order(&market.index), order(&fresh.index));
            for (seed, keywords) in (0..).zip(zone.questions()) {
                for count in [1, 7, 100] {
                    let answer = |of: &Market| {
                        decided(&of.index, (SITE, ZONE), keywords.iter().copied(), count, seed)
                    };
                    prop_assert_eq!(answer(&market), answer(&fresh));
                }
            }
        }
    }
}

/// A feed names each object once, as it is at the end.
fn last_of_each(changes: Vec<Change>) -> Vec<Change> {
    let mut named = BTreeSet::new();
    let mut last: Vec<_> = changes.into_iter().rev().filter(|one| named.insert(key(one))).collect();
    last.reverse();
    last
}

fn key(change: &Change) -> Key {
    match change {
        Change::Account(account) => Key::Account(account.id.clone()),
        Change::Site(site) => Key::Site(site.id.clone()),
        Change::Zone(zone) => Key::Zone(zone.site.clone(), zone.id.clone()),
        Change::Campaign(campaign) => Key::Campaign(campaign.id.clone()),
        Change::Ad(ad) => Key::Ad(ad.campaign.clone(), ad.unit.clone()),
        Change::Removed(key) => key.clone(),
    }
}
