use hawser_policy::Profile;

use crate::ConfigError;
use crate::document::Section;

/// `[connection]`: connections that each go over one link.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ConnectionConfig {
    /// `profile`: which of the sets of rules that come with Hawser is in force. Default `"speed"`.
    pub profile: Profile,
}

impl TryFrom<Section<'_>> for ConnectionConfig {
    type Error = ConfigError;

    fn try_from(section: Section<'_>) -> Result<Self, ConfigError> {
        section.allow_only(&["profile"])?;
        let mut config = Self::default();
        if let Some(field) = section.field("profile") {
            config.profile = field.named(Profile::ALL, Profile::name)?;
        }
        Ok(config)
    }
}
