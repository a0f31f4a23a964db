//! Style sheet, scripts and icon. They are compiled in, and their path has a hash of their contents, so that browsers may
//! keep them.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// An asset.
struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const ASSETS: [Asset; 4] = [
    Asset { name: "app.css", content_type: CSS, bytes: include_bytes!("../assets/app.css") },
    Asset { name: "app.js", content_type: SCRIPT, bytes: include_bytes!("../assets/app.js") },
    Asset { name: "idiomorph.js", content_type: SCRIPT, bytes: include_bytes!("../assets/idiomorph/idiomorph.js") },
    Asset { name: "icon.svg", content_type: "image/svg+xml", bytes: include_bytes!("../assets/icon.svg") },
];

/// A hash of all assets. One for all lets a script import another by its plain name.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for asset in &ASSETS {
        hash.update(asset.name);
        hash.update(asset.bytes);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
});

/// The path of an asset.
pub(crate) fn path(name: &str) -> String {
    format!("/assets/{}/{name}", *VERSION)
}

/// The path by its names: an application's own parts of the path may come before.
#[derive(Deserialize)]
pub(crate) struct AssetPath {
    version: String,
    name: String,
}

/// An asset of this version. A page of another version is stale, and its reload brings the right paths.
pub(crate) async fn serve(Path(AssetPath { version, name }): Path<AssetPath>) -> Response {
    match ASSETS.iter().find(|asset| asset.name == name && version == *VERSION) {
        Some(asset) => {
            let headers = [
                (header::CONTENT_TYPE, asset.content_type),
                (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
            ];
            (headers, asset.bytes).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_small() {
        let script = ASSETS.iter().find(|asset| asset.name == "app.js").unwrap();
        assert!(script.bytes.len() < 15_000, "{} bytes", script.bytes.len());
    }
}
