//! Whether a connection goes over one link or over the gateway.

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

/// Returns the way that rules and the gateway's use give a connection before anything is weighed,
/// and the reason; no way where that is left to weighing.
///
/// A session goes over every link, so anything that keeps a connection off some of them keeps it
/// off the gateway: `keeps_off`. The gateway does not lead to networks of this machine: `is_near`.
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
        // It was not captured as packets, or it would not be asked about.
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

/// The two ways of one connection, as they are at one moment.
pub(crate) struct Weighing<'a> {
    pub(crate) links: &'a Links,
    pub(crate) rules: &'a AllLinkRules,
    pub(crate) rates: &'a EffectiveRates,
    pub(crate) judgement: &'a Judgement<'a>,
}

impl Weighing<'_> {
    /// Returns the reason to go over the gateway; `None` where a link is the better way, or the one
    /// that other connections have just taken to the same site. The site's way is noted in the
    /// gateway's record.
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
        // A VPN for all traffic, or a resolver: as the system has it.
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
        // What is begun at the same moment goes the same way.
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

    /// The links that the connection would take, of the first tier that has any.
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

    /// The links that carry the session's data. These are not the ones kept in reserve, unless
    /// there are no others, and not those whose signal fades, unless there are not even these.
    fn session_links(&self, session: &SessionView) -> Vec<LinkView> {
        let records = || {
            let links = session.links.iter();
            links.filter_map(|(index, _)| self.links.get(*index))
        };
        // Preferred links do not keep the others from carrying data.
        let rank = |it: &LinkRecord| match self.rules.permission(it.link()) {
            Permission::Preferred => Permission::Allowed.rank(),
            permission => permission.rank(),
        };
        let first = records().map(rank).min();
        let carrying = records().filter(|it| Some(rank(it)) == first);
        carrying.map(|record| self.view(record, session)).collect()
    }

    /// A link as policies see it. Where no connection was answered on it yet, its latency is the
    /// session's round-trip time to the gateway.
    fn view(&self, record: &LinkRecord, session: &SessionView) -> LinkView {
        let mut view = record.view(self.rates.of(record, self.rules));
        if view.latency.is_zero() {
            let mut links = session.links.iter();
            let known = links.find(|(index, _)| *index == view.link);
            view.latency = known.map_or(Duration::ZERO, |(_, rtt)| *rtt);
        }
        view
    }

    /// The rates that the gateway passes on at most: those of its links together, unless it was
    /// seen to pass on less.
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
