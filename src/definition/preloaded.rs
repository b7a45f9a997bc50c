//! The skills that an agent has read before it begins.

use super::AgentDefinition;
use crate::prompt;
use crate::skill::Skills;

/// Most characters of all skills that an agent has read before it begins. About
/// 15,000 tokens: a few long ones, and still most of a context window for the
/// work.
pub const PRELOADED_CAP: usize = 60_000;

impl AgentDefinition {
    /// Returns what the agent is told, with the skills that its definition
    /// names behind it, and a sentence for people about each that is left out.
    #[must_use]
    pub fn prompt_with(&self, skills: &Skills) -> (String, Vec<String>) {
        let mut texts: Vec<(&str, String)> = Vec::new();
        let mut left_out = Vec::new();
        let mut room = PRELOADED_CAP;
        for name in &self.skills {
            let why = match skills.find(name) {
                None => "there is none",
                Some(skill) if skill.disable_model_invocation => "it is for people alone",
                Some(skill) => {
                    let text = skill.filled("");
                    match room.checked_sub(text.chars().count()) {
                        Some(left) => {
                            room = left;
                            texts.push((&skill.name, text));
                            continue;
                        }
                        None => "with it there would be too much to read",
                    }
                }
            };
            left_out.push(format!("agent `{}` has not read the skill `{name}`: {why}", self.name));
        }
        (prompt::with_skills(&self.prompt, &texts), left_out)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::definition::Definitions;
    use crate::skill::Places;

    #[test]
    fn an_agent_has_read_the_skills_that_its_definition_names_and_no_others() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "agents/a.md",
            "---\nname: a\ndescription: d\nskills: style, gone, deploy, long\n---\nBe brief.\n",
        );
        write("skills/style/SKILL.md", "---\ndescription: d\n---\nWrite $ARGUMENTS plainly.\n");
        write("skills/other/SKILL.md", "---\ndescription: d\n---\nNot read.\n");
        let long = "x".repeat(PRELOADED_CAP);
        write("skills/long/SKILL.md", &format!("---\ndescription: d\n---\n{long}"));
        let own = "---\ndescription: d\ndisable-model-invocation: true\n---\nDeploy.\n";
        write("skills/deploy/SKILL.md", own);
        let (definitions, _) =
            Definitions::load(&[place.path().join("agents")], None, |_, _| false);
        let places = [place.path().join("skills")];
        let (skills, _) =
            Skills::load(&Places { skills: &places, ..Places::default() }, |_, _| false);
        let (prompt, left_out) = definitions.find("a").unwrap().prompt_with(&skills);
        assert!(prompt.starts_with("Be brief.\n\n# "), "{prompt}");
        assert!(prompt.ends_with("\n\n## style\n\nWrite  plainly."), "{prompt}");
        assert_eq!(
            left_out,
            [
                "agent `a` has not read the skill `gone`: there is none",
                "agent `a` has not read the skill `deploy`: it is for people alone",
                "agent `a` has not read the skill `long`: with it there would be too much to read",
            ]
        );
    }
}
