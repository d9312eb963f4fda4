//! The order in which a connection tries links.

use std::collections::BTreeMap;
use std::sync::Arc;

use hawser_sched::connection::{ConnectionScheduler, LinkView, Reason};
use hawser_types::Link;

use super::decision::{Candidate, Standing};
use super::health::Health;
use super::judgement::{Judgement, Tier};
use super::link_rates::EffectiveRates;
use super::link_rules::AllLinkRules;
use super::links::Links;

/// Links that a connection may take.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    /// Links in the order in which they are tried.
    pub(crate) ranked: Vec<(Standing, LinkView)>,
    /// The policy's reason for the first link.
    pub(crate) reason: Option<Reason>,
    /// A suspect link that is due for a trial.
    pub(crate) trial: Option<Arc<Link>>,
}

impl Placed {
    /// Asks the policy for the order of the links.
    pub(crate) fn new(
        links: &mut Links,
        scheduler: &mut dyn ConnectionScheduler,
        judgement: &Judgement<'_>,
        rules: &AllLinkRules,
        rates: &EffectiveRates,
    ) -> Self {
        let mut sound: BTreeMap<Tier, Vec<LinkView>> = BTreeMap::new();
        let mut others: Vec<(Tier, LinkView)> = Vec::new();
        for record in links.iter().filter(|it| judgement.is_open(it, rules)) {
            let tier = judgement.tier(record, rules);
            let view = record.view(rates.of(record, rules));
            match record.health() {
                Health::Sound => sound.entry(tier).or_default().push(view),
                Health::Suspect | Health::Portal => others.push((tier, view)),
            }
        }
        let demand = judgement.demand();
        let mut placed = Self::default();
        let mut standing = Standing::Equal;
        for mut views in sound.into_values() {
            views.sort_by_key(|view| view.time_to_answer(demand));
            if standing == Standing::Equal {
                let mut by_index = views.clone();
                by_index.sort_by_key(|view| view.link);
                let choice = scheduler.select(demand, &by_index);
                views.sort_by_key(|view| choice.is_none_or(|choice| view.link != choice.link));
                placed.reason = choice.map(|choice| choice.reason);
            }
            let views = views.into_iter().map(|view| (standing, view));
            placed.ranked.extend(views);
            standing = Standing::Reserve;
        }
        others.sort_by_key(|(tier, view)| (*tier, view.time_to_answer(demand)));
        // One trial at a time, while another link answers, and only with a protocol that answers.
        let can_try = !placed.ranked.is_empty() && judgement.expected().is_acknowledged();
        for (_, view) in others {
            let record = links.get_mut(view.link);
            if let Some(record) = record.filter(|_| can_try && placed.trial.is_none())
                && record.take_trial(rates.now())
            {
                placed.trial = Some(Arc::clone(record.link()));
            }
            placed.ranked.push((Standing::Suspect, view));
        }
        placed
    }

    /// Returns the links as candidates.
    pub(crate) fn candidates(&self, links: &Links) -> Vec<Candidate> {
        let candidate = |(standing, view): &(Standing, LinkView)| {
            let record = links.get(view.link)?;
            Some(Candidate {
                link: Arc::clone(record.link()),
                patience: record.estimates().patience(),
                standing: *standing,
            })
        };
        self.ranked.iter().filter_map(candidate).collect()
    }
}
