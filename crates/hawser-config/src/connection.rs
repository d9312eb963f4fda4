use hawser_policy::Profile;
use hawser_sched::connection::ConnectionPolicy;

use crate::ConfigError;
use crate::document::Section;

/// `[connection]`: connections that each go over one link.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ConnectionConfig {
    /// `scheduler`: which link a connection takes. Default `"auto"`.
    pub scheduler: ConnectionPolicy,
    /// `profile`: which of the sets of rules that come with Hawser is in force. Default `"speed"`.
    pub profile: Profile,
}

impl TryFrom<Section<'_>> for ConnectionConfig {
    type Error = ConfigError;

    fn try_from(section: Section<'_>) -> Result<Self, ConfigError> {
        section.allow_only(&["scheduler", "profile"])?;
        let mut config = Self::default();
        if let Some(field) = section.field("scheduler") {
            config.scheduler = field.named(&ConnectionPolicy::ALL, ConnectionPolicy::name)?;
        }
        if let Some(field) = section.field("profile") {
            config.profile = field.named(Profile::ALL, Profile::name)?;
        }
        Ok(config)
    }
}
