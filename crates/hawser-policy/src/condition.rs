use ipnet::IpNet;

use hawser_sched::connection::Class;

use crate::{CgroupPath, DomainPattern, Dscp, Facts, Pattern, PortRange, Protocol, User};

/// Condition of a rule: a connection has to match every field that is set. An empty list is not
/// set; a list matches if any entry does.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Condition {
    /// `program`: the process's name.
    pub program: Vec<Pattern>,
    /// `executable`: the path of the program's file.
    pub executable: Vec<Pattern>,
    /// `user`: the user of the process.
    pub user: Vec<User>,
    /// `cgroup`: the control group or an ancestor of it.
    pub cgroup: Vec<CgroupPath>,
    /// `domain`: the name of the destination.
    pub domain: Vec<DomainPattern>,
    /// `address`: the network of the destination.
    pub address: Vec<IpNet>,
    /// `port`: the port of the destination.
    pub port: Vec<PortRange>,
    /// `protocol`: the transport protocol.
    pub protocol: Option<Protocol>,
    /// `dscp`: the code point of its packets.
    pub dscp: Vec<Dscp>,
    /// `of-class`: its class, as other rules set it. A rule with this field cannot set the class.
    pub class: Vec<Class>,
}

/// Maximum number of values of one field of a rule: each connection is compared with all of them.
pub const MAX_VALUES: usize = 1000;

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
    /// The name of the destination.
    Domain,
    /// The address of the destination.
    Address,
    /// The port of the destination.
    Port,
    /// The transport protocol.
    Protocol,
    /// The code point of its packets.
    Dscp,
    /// Its class.
    Class,
}

/// Reason why a rule does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Miss {
    /// The first field that does not match.
    pub field: Field,
    /// The connection's value is known; an unknown value matches nothing.
    pub known: bool,
}

impl Condition {
    /// Tells whether the condition depends on the process that makes the connection; so does a
    /// class, since rules may set it by the process.
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

    /// Tests a connection; `class` is its class by the rules, `None` while it is not determined.
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

    /// Tells whether the condition applies to every connection.
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }
}

impl Field {
    /// Returns its key in rules.
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

/// Tells whether one of `wanted` matches the connection's value; an empty list always matches.
fn fits<W, H: Copy>(
    field: Field,
    wanted: &[W],
    has: Option<H>,
    fits: impl Fn(&W, H) -> bool,
) -> Result<(), Miss> {
    let known = has.is_some();
    let any = has.is_some_and(|has| wanted.iter().any(|one| fits(one, has)));
    if wanted.is_empty() || any {
        Ok(())
    } else {
        Err(Miss { field, known })
    }
}
