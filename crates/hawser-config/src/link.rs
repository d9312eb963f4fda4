use crate::ConfigError;
use crate::document::Section;

/// `[[link]]`: what is known about one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// `name`: the interface, such as `wwan0`. Must be there.
    pub name: String,
    /// `weight`: multiplies its rate where the scheduler is `weighted-round-robin`. From 1 to 1000,
    /// default 1.
    pub weight: u32,
}

impl TryFrom<Section<'_>> for LinkConfig {
    type Error = ConfigError;

    fn try_from(section: Section<'_>) -> Result<Self, ConfigError> {
        section.allow_only(&["name", "weight"])?;
        let name = section.required("name", LINK_NAME)?;
        let weight = section.field("weight");
        Ok(Self {
            name: name.parse_with(read_link_name, LINK_NAME)?,
            weight: weight.map_or(Ok(DEFAULT_WEIGHT), |field| field.integer(1..=MAX_WEIGHT))?,
        })
    }
}

/// Every `[[link]]` of the file; a second one for the same interface is refused.
pub(crate) fn read_all(root: &Section<'_>) -> Result<Vec<LinkConfig>, ConfigError> {
    let Some(field) = root.field("link") else {
        return Ok(Vec::new());
    };
    let mut links: Vec<LinkConfig> = Vec::new();
    for entry in field.list("sections that begin with [[link]]")? {
        let section = entry.section()?;
        let name = section.required("name", LINK_NAME)?;
        let link = LinkConfig::try_from(section)?;
        if links.iter().any(|other| other.name == link.name) {
            return Err(name.wrong("one [[link]] for each interface"));
        }
        links.push(link);
    }
    Ok(links)
}

/// `text`, when the kernel would take it as the name of an interface.
pub fn read_link_name(text: &str) -> Option<String> {
    let fits = (1..=MAX_LINK_NAME).contains(&text.len()) && text != "." && text != "..";
    let is_clean = text
        .chars()
        .all(|c| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':');
    (fits && is_clean).then(|| text.to_owned())
}

/// What [`read_link_name`] takes, for errors.
pub(crate) const LINK_NAME: &str = "the name of an interface such as \"wwan0\"";

/// The weight of a link of which nothing is said.
pub const DEFAULT_WEIGHT: u32 = 1;

const MAX_WEIGHT: u32 = 1000;
/// `IFNAMSIZ` less the closing zero.
const MAX_LINK_NAME: usize = 15;
