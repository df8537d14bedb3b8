//! Compiles the contract with a protobuf compiler written in Rust: no protoc on the machine.

use std::path::PathBuf;

use prost::Message;

const FILES: [&str; 6] = [
    "slotwise/v1/common.proto",
    "slotwise/v1/decision.proto",
    "slotwise/v1/catalog.proto",
    "slotwise/v1/events.proto",
    "slotwise/v1/users.proto",
    "slotwise/v1/reports.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in FILES {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("slotwise.bin"), descriptors.encode_to_vec())?;

    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .codec_path("crate::codec::SmallCodec")
        .compile_fds_with_config(descriptors, config)?;
    Ok(())
}
