use hawser_types::ByteCount;

/// Need of a connection of one application to one class of ports, so far.
///
/// `demand ← demand + (observed − demand) / 8`, when a connection ends; the first one sets it. In
/// whole numbers, cut towards the estimate, as the kernel's program has it too.
///
/// Source: DBAS §II.B eq. 1 (α = 0.125, chosen there so that it is a shift).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DemandEstimate {
    /// Bytes that it sends, in all.
    pub up: ByteCount,
    /// Bytes that it receives, in all.
    pub down: ByteCount,
    /// Connections that the estimate comes from; with none, nothing is known.
    pub connections: u64,
}

/// Whose connections an estimate is of: the application, empty where it is not known, and the
/// class of the port.
pub type DemandKey = (String, PortClass);

/// Ports that are used alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PortClass {
    /// Web pages and what is built on them.
    Web,
    /// Mail, sent and fetched.
    Mail,
    /// Remote shells and desktops.
    Shell,
    /// Name lookups.
    Dns,
    /// Other system ports, below 1024.
    System,
    /// Other registered ports, below 49152.
    ///
    /// Source: RFC 6335 §6.
    Registered,
    /// Ports that cannot be registered.
    Dynamic,
}

impl DemandEstimate {
    /// Learns what a connection has moved from its beginning to its end.
    pub fn observe(&mut self, up: ByteCount, down: ByteCount) {
        if self.connections == 0 {
            (self.up, self.down) = (up, down);
        } else {
            self.up = towards(self.up, up);
            self.down = towards(self.down, down);
        }
        self.connections = self.connections.saturating_add(1);
    }
}

impl PortClass {
    /// Every class.
    pub const ALL: [Self; 7] = [
        Self::Web,
        Self::Mail,
        Self::Shell,
        Self::Dns,
        Self::System,
        Self::Registered,
        Self::Dynamic,
    ];

    /// The class of a port that connections go to.
    pub const fn of(port: u16) -> Self {
        match port {
            80 | 443 | 8000 | 8008 | 8080 | 8443 | 8888 => Self::Web,
            25 | 110 | 143 | 465 | 587 | 993 | 995 => Self::Mail,
            22 | 23 | 3389 | 5900..=5909 => Self::Shell,
            53 | 853 => Self::Dns,
            0..=1023 => Self::System,
            1024..=49151 => Self::Registered,
            49152..=u16::MAX => Self::Dynamic,
        }
    }

    /// The word for it in reports and databases.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Mail => "mail",
            Self::Shell => "shell",
            Self::Dns => "dns",
            Self::System => "system",
            Self::Registered => "registered",
            Self::Dynamic => "dynamic",
        }
    }

    /// The class with this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|class| class.name() == name)
    }
}

fn towards(estimate: ByteCount, observed: ByteCount) -> ByteCount {
    let step = |difference: ByteCount| ByteCount::new(difference.as_u64() >> SHIFT);
    if observed > estimate {
        estimate + step(observed - estimate)
    } else {
        estimate - step(estimate - observed)
    }
}

/// Of eq. 1: an eighth.
const SHIFT: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(count: u64) -> ByteCount {
        ByteCount::new(count)
    }

    #[test]
    fn the_first_connection_sets_the_estimate() {
        let mut demand = DemandEstimate::default();
        demand.observe(bytes(100), bytes(9_000));
        let expected = DemandEstimate {
            up: bytes(100),
            down: bytes(9_000),
            connections: 1,
        };
        assert_eq!(demand, expected);
    }

    #[test]
    fn each_further_one_moves_it_by_an_eighth_of_the_difference() {
        let mut demand = DemandEstimate::default();
        for (up, down) in [(800, 800), (1_600, 0), (900, 700)] {
            demand.observe(bytes(up), bytes(down));
        }
        // 800 + 800/8 = 900, as observed; 800 − 800/8 = 700, as observed.
        assert_eq!((demand.up, demand.down), (bytes(900), bytes(700)));
        assert_eq!(demand.connections, 3);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let mut demand = DemandEstimate {
            connections: u64::MAX,
            ..DemandEstimate::default()
        };
        demand.observe(ByteCount::MAX, ByteCount::ZERO);
        assert_eq!(demand.up, bytes(u64::MAX >> 3));
        assert_eq!(demand.connections, u64::MAX);
    }

    #[test]
    fn ports_have_the_class_of_what_is_spoken_there() {
        for (port, class) in [
            (443, PortClass::Web),
            (993, PortClass::Mail),
            (22, PortClass::Shell),
            (53, PortClass::Dns),
            (123, PortClass::System),
            (27_015, PortClass::Registered),
            (49_152, PortClass::Dynamic),
        ] {
            assert_eq!(PortClass::of(port), class, "{port}");
        }
        for class in PortClass::ALL {
            assert_eq!(PortClass::named(class.name()), Some(class));
        }
        assert_eq!(PortClass::named("post"), None);
    }
}
