use ipnet::IpNet;

use hawser_sched::connection::Class;

use crate::{CgroupPath, DomainPattern, Dscp, Facts, Pattern, PortRange, Protocol, User};

/// Which connections a rule applies to: those that fit every field that says something. A list
/// that is empty says nothing; one that is not is fitted by any of its entries.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Condition {
    /// `program`: the process's name.
    pub program: Vec<Pattern>,
    /// `executable`: the path of the program's file.
    pub executable: Vec<Pattern>,
    /// `user`: who runs it.
    pub user: Vec<User>,
    /// `cgroup`: the control group, or one above it.
    pub cgroup: Vec<CgroupPath>,
    /// `domain`: the name it goes to.
    pub domain: Vec<DomainPattern>,
    /// `address`: the network it goes to.
    pub address: Vec<IpNet>,
    /// `port`: the port it goes to.
    pub port: Vec<PortRange>,
    /// `protocol`: what it speaks.
    pub protocol: Option<Protocol>,
    /// `dscp`: the code point its packets are marked with.
    pub dscp: Vec<Dscp>,
    /// `of-class`: its class, as the rules have it. A rule that asks for it can't set it.
    pub class: Vec<Class>,
}

/// A field of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// The process's name.
    Program,
    /// The path of the program's file.
    Executable,
    /// The user id.
    User,
    /// The control group.
    Cgroup,
    /// The name it goes to.
    Domain,
    /// The address it goes to.
    Address,
    /// The port it goes to.
    Port,
    /// What it speaks.
    Protocol,
    /// The code point of its packets.
    Dscp,
    /// Its class.
    Class,
}

/// Why a rule does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Miss {
    /// The first field that does not fit.
    pub field: Field,
    /// Whether the connection's own is known; what is not known fits nothing.
    pub known: bool,
}

impl Condition {
    /// Whether it depends on the process that makes the connection; a class does, as rules find it
    /// by that.
    pub(crate) fn asks_who(&self) -> bool {
        let Self {
            program,
            executable,
            user,
            cgroup,
            class,
            ..
        } = self;
        !(program.is_empty()
            && executable.is_empty()
            && user.is_empty()
            && cgroup.is_empty()
            && class.is_empty())
    }

    /// Whether the connection fits; `class` is what the rules take it for, `None` while that is
    /// still to be found out.
    pub fn test(&self, facts: &Facts<'_>, class: Option<Class>) -> Result<(), Miss> {
        let remote = facts.remote.map(|remote| remote.to_canonical());
        fits(
            Field::Protocol,
            self.protocol.as_slice(),
            Some(facts.protocol),
            |one, has| *one == has,
        )?;
        fits(Field::Port, &self.port, Some(facts.port), |one, has| {
            one.contains(has)
        })?;
        fits(Field::Program, &self.program, facts.program, |one, has| {
            one.matches_program(has)
        })?;
        fits(
            Field::Executable,
            &self.executable,
            facts.executable,
            |one, has| one.matches(has),
        )?;
        fits(Field::User, &self.user, facts.user, |one, has| {
            one.id() == has
        })?;
        fits(Field::Cgroup, &self.cgroup, facts.cgroup, |one, has| {
            one.contains(has)
        })?;
        fits(Field::Domain, &self.domain, facts.domain, |one, has| {
            one.matches(has)
        })?;
        fits(Field::Address, &self.address, remote, |one, has| {
            one.contains(&has)
        })?;
        fits(Field::Dscp, &self.dscp, facts.dscp, |one, has| {
            one.value() == has
        })?;
        fits(Field::Class, &self.class, class, |one, has| *one == has)
    }

    /// Whether it applies to every connection.
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }
}

impl Field {
    /// The key for it in rules.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Executable => "executable",
            Self::User => "user",
            Self::Cgroup => "cgroup",
            Self::Domain => "domain",
            Self::Address => "address",
            Self::Port => "port",
            Self::Protocol => "protocol",
            Self::Dscp => "dscp",
            Self::Class => "of-class",
        }
    }
}

/// Whether one of `wanted` fits what the connection has; nothing wanted is always fitted.
fn fits<W, H: Copy>(
    field: Field,
    wanted: &[W],
    has: Option<H>,
    fits: impl Fn(&W, H) -> bool,
) -> Result<(), Miss> {
    let known = has.is_some();
    let any = has.is_some_and(|has| wanted.iter().any(|one| fits(one, has)));
    match wanted.is_empty() || any {
        true => Ok(()),
        false => Err(Miss { field, known }),
    }
}
