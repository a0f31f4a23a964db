//! The files of `deploy/` and docker-compose.yml: they can be read, and name what there is.

use test_support::prelude::*;
use yaml_rust2::{Yaml, YamlLoader};

use crate::support::{directory, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn words(list: &Yaml) -> Vec<String> {
    list.as_vec().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// The command knows all these words. With --help it reads them and does nothing.
fn is_known(words: &[String], file: &str) {
    let mut arguments: Vec<_> = words.iter().map(String::as_str).collect();
    arguments.push("--help");
    let output = run(&arguments);
    assert!(output.status.success(), "{file}: {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn kubernetes_starts_the_command_and_probes_paths_that_there_are() {
    let file = "deploy/kubernetes.yaml";
    let [deployment, service] = <[Yaml; 2]>::try_from(yaml(file)).unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    is_known(&words(&container["args"]), file);
    assert_eq!(container["livenessProbe"]["httpGet"]["path"].as_str(), Some("/health/live"));
    assert_eq!(container["readinessProbe"]["httpGet"]["path"].as_str(), Some("/health/ready"));
    let port = container["ports"][0]["containerPort"].as_i64().unwrap();
    assert!(words(&container["args"]).contains(&format!("--listen=0.0.0.0:{port}")));
    assert_eq!(service["spec"]["ports"][0]["targetPort"], container["ports"][0]["name"]);
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
}

#[test]
fn docker_compose_starts_commands_that_there_are() {
    let file = "docker-compose.yml";
    let compose = &yaml(file)[0];
    for service in ["migrate", "dashboard"] {
        is_known(&words(&compose["services"][service]["command"]), file);
        let image = &compose["services"][service]["build"]["dockerfile"];
        assert!(root().join(image.as_str().unwrap()).exists(), "{image:?}");
    }
    // Nothing of it is reached from other machines.
    for service in ["postgres", "dashboard"] {
        let ports = words(&compose["services"][service]["ports"]);
        assert!(ports.iter().all(|port| port.starts_with("127.0.0.1:")), "{ports:?}");
    }
}

#[test]
fn prometheus_loads_rules_that_there_are() {
    let config = &yaml("deploy/prometheus.yml")[0];
    for file in words(&config["rule_files"]) {
        let rules = &yaml(&format!("deploy/{file}"))[0];
        for rule in rules["groups"][0]["rules"].as_vec().unwrap() {
            assert!(rule["alert"].as_str().is_some() && rule["expr"].as_str().is_some(), "{rule:?}");
            assert!(rule["annotations"]["summary"].as_str().is_some(), "{rule:?}");
        }
    }
    assert_eq!(config["scrape_configs"][0]["metrics_path"].as_str(), Some("/metrics"));
}

#[test]
fn grafana_and_the_rules_ask_for_metrics_that_there_are() {
    serde_json::from_str::<serde_json::Value>(&text("deploy/grafana-dashboard.json")).unwrap();
    let documented = text("docs/operate/web.md");
    for file in ["deploy/grafana-dashboard.json", "deploy/prometheus-rules.yml"] {
        let text = text(file);
        let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
        let names: Vec<_> = words.filter(|word| word.starts_with("uniqueue_")).collect();
        assert!(!names.is_empty(), "{file}");
        for name in names {
            assert!(documented.contains(&format!("`{name}`")), "{file}: {name}");
        }
    }
}

#[test]
fn systemd_reads_the_unit() {
    let file = "deploy/uniqueue.service";
    let unit = text(file);
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/uniqueue ")).unwrap();
    is_known(&line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>(), file);
    // The command need not be installed here.
    let place = directory();
    let path = place.path().join("uniqueue.service");
    fs::write(&path, unit.replace("/usr/local/bin/uniqueue", "/bin/true")).unwrap();
    match Command::new("systemd-analyze").arg("verify").arg(&path).output() {
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !told.contains("uniqueue.service"), "{told}");
        }
        Err(_) => eprintln!("without systemd-analyze this test read the unit's command only"),
    }
}
