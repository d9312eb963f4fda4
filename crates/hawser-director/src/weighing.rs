//! Choice between one link and the gateway for a connection.

use std::time::Duration;

use hawser_policy::{LinkChoice, Mode, Verdict};
use hawser_sched::connection::{By, GatewayUse, GatewayView, LinkView, choose_way};
use hawser_types::{Permission, Rate};

use super::gateway::{GatewayRecord, SessionView};
use super::health::Health;
use super::judgement::Judgement;
use super::link_rates::EffectiveRates;
use super::link_record::LinkRecord;
use super::link_rules::AllLinkRules;
use super::links::Links;
use super::sites::Site;

/// Returns the route that rules and the gateway's use impose before anything is weighed, and the
/// reason; no route if weighing decides.
///
/// A session uses every link, so a rule that keeps a connection off some of them keeps it off the
/// gateway: `keeps_off`. The gateway does not lead to networks of this machine: `is_near`.
pub fn ruled(
    usage: GatewayUse,
    verdict: &Verdict,
    keeps_off: bool,
    is_near: bool,
) -> (Option<By>, &'static str) {
    match (verdict.mode, usage) {
        _ if verdict.links != LinkChoice::Any => (Some(By::Link), "not every link is open to it"),
        _ if keeps_off => (Some(By::Link), "it is to keep off some links"),
        (Mode::Direct, _) => (Some(By::Link), "its mode is direct"),
        (Mode::Bonded, _) => (Some(By::Gateway), "its mode is bonded"),
        // A connection captured as packets would not get here.
        (Mode::Packet, _) => (Some(By::Gateway), "its mode is packet"),
        _ if is_near => (
            Some(By::Link),
            "it does not leave the networks of this machine",
        ),
        (Mode::Auto, GatewayUse::Always) => (Some(By::Gateway), "the gateway is for everything"),
        (Mode::Auto, GatewayUse::Never) => (Some(By::Link), "the gateway is for nothing else"),
        (Mode::Auto, GatewayUse::Auto) => (None, "it goes the way that gains more"),
    }
}

/// Both routes of one connection, in their current state.
pub(crate) struct Weighing<'a> {
    pub(crate) links: &'a Links,
    pub(crate) rules: &'a AllLinkRules,
    pub(crate) rates: &'a EffectiveRates,
    pub(crate) judgement: &'a Judgement<'a>,
}

impl Weighing<'_> {
    /// Returns the reason to use the gateway; `None` if a link is better, or if other connections
    /// have just taken a link to the same site. The site's route is noted in the gateway's record.
    pub(crate) fn why_gateway(
        &self,
        gateway: &mut GatewayRecord,
        is_near: bool,
    ) -> Option<&'static str> {
        let keeps_off = self.judgement.keeps_off_some(self.links, self.rules);
        let verdict = self.judgement.verdict();
        let (said, why) = ruled(gateway.usage(), verdict, keeps_off, is_near);
        match said {
            Some(By::Link) => None,
            Some(By::Gateway) => gateway.is_there().then_some(why),
            None => self.why_weighed(gateway),
        }
    }

    fn why_weighed(&self, gateway: &mut GatewayRecord) -> Option<&'static str> {
        // The system's routes apply: a VPN takes all traffic, or the destination is a resolver.
        if self.judgement.is_left_anywhere() {
            return None;
        }
        let session = gateway.session()?;
        let site = self.judgement.site();
        let kept = site.and_then(|it| gateway.sites().kept(it, self.rates.now()));
        if let Some(kept) = kept {
            return (kept == By::Gateway).then_some("others went to its site that way lately");
        }
        let by = self.weigh(gateway, session, site);
        // Connections started at the same moment take the same route.
        if let Some(site) = site {
            gateway.sites_mut().note(site, by, self.rates.now());
        }
        (by == By::Gateway).then_some("it gains by it")
    }

    fn weigh(&self, gateway: &GatewayRecord, session: &SessionView, site: Option<&Site>) -> By {
        let reached = site.map(|it| gateway.sites().reached(it, self.rates.now()));
        let shared = self.session_links(session);
        let [up, down] = self.most(gateway, &shared);
        let nearest = session.links.iter().map(|(_, rtt)| *rtt).min();
        let view = GatewayView {
            links: &shared,
            up,
            down,
            latency: gateway.latency(nearest.unwrap_or_default()),
            load: gateway.load(),
        };
        let links = self.best_links(session);
        choose_way(
            self.judgement.demand(),
            &links,
            &view,
            &reached.unwrap_or_default(),
        )
    }

    /// Returns the links of the first non-empty tier that the connection would take.
    fn best_links(&self, session: &SessionView) -> Vec<LinkView> {
        let open = self.links.iter().filter(|record| {
            self.judgement.is_open(record, self.rules) && record.health() == Health::Sound
        });
        let mut best = Vec::new();
        let mut first = None;
        for record in open {
            let tier = self.judgement.tier(record, self.rules);
            if first.is_some_and(|first| first < tier) {
                continue;
            }
            if first != Some(tier) {
                best.clear();
            }
            first = Some(tier);
            best.push(self.view(record, session));
        }
        best
    }

    /// Returns the links that carry the session's data: without links in reserve unless there are
    /// no others, and without fading links unless no other link is left.
    fn session_links(&self, session: &SessionView) -> Vec<LinkView> {
        let records = || {
            let links = session.links.iter();
            links.filter_map(|(index, _)| self.links.get(*index))
        };
        // Preferred links do not exclude the others from carrying data.
        let rank = |it: &LinkRecord| match self.rules.permission(it.link()) {
            Permission::Preferred => Permission::Allowed.rank(),
            permission => permission.rank(),
        };
        let first = records().map(rank).min();
        let carrying = records().filter(|it| Some(rank(it)) == first);
        carrying.map(|record| self.view(record, session)).collect()
    }

    /// Returns a link in the form that policies use. If no connection was answered on it yet, its
    /// latency is the session's round-trip time to the gateway.
    fn view(&self, record: &LinkRecord, session: &SessionView) -> LinkView {
        let mut view = record.view(self.rates.of(record, self.rules));
        if view.latency.is_zero() {
            let mut links = session.links.iter();
            let known = links.find(|(index, _)| *index == view.link);
            view.latency = known.map_or(Duration::ZERO, |(_, rtt)| *rtt);
        }
        view
    }

    /// Returns the upper bound of the gateway's rates: the sum of its links, unless it was seen to
    /// forward less.
    fn most(&self, gateway: &GatewayRecord, links: &[LinkView]) -> [Rate; 2] {
        let sum = |rate: fn(&LinkView) -> Rate| {
            let rates = links.iter().map(|link| rate(link).bytes_per_second());
            Rate::from_bytes_per_second(rates.fold(0, u64::saturating_add))
        };
        let together = [sum(|link| link.up), sum(|link| link.down)];
        gateway.counts_for(self.rates.now(), together)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_first_then_where_it_leads_then_what_the_gateway_is_for() {
        let verdict = |mode| Verdict {
            mode,
            ..Verdict::default()
        };
        let by = |usage, mode, is_near| ruled(usage, &verdict(mode), false, is_near).0;
        for usage in GatewayUse::ALL {
            for is_near in [false, true] {
                assert_eq!(by(usage, Mode::Direct, is_near), Some(By::Link));
                assert_eq!(by(usage, Mode::Bonded, is_near), Some(By::Gateway));
                assert_eq!(by(usage, Mode::Packet, is_near), Some(By::Gateway));
            }
            assert_eq!(by(usage, Mode::Auto, true), Some(By::Link));
            let bonded = verdict(Mode::Bonded);
            assert_eq!(ruled(usage, &bonded, true, false).0, Some(By::Link));
        }
        let auto = |usage| by(usage, Mode::Auto, false);
        assert_eq!(auto(GatewayUse::Always), Some(By::Gateway));
        assert_eq!(auto(GatewayUse::Never), Some(By::Link));
        assert_eq!(auto(GatewayUse::Auto), None);
    }
}
