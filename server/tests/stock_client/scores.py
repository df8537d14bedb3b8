"""Calls a Slotwise server as a stranger would: with stock grpcio and nothing of ours but the
contract, and then with what gRPC reflection says alone.

usage: scores.py DECISION_ADDR ADMIN_ADDR PROTO_DIR
"""

import importlib
import pathlib
import sys
import tempfile
import time
from types import SimpleNamespace

import grpc
import grpc_tools
from google.protobuf import descriptor_pool, message_factory
from google.rpc import code_pb2, error_details_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_status import rpc_status
from grpc_tools import protoc

PACKAGE = "slotwise.v1"
# How long one call may take, and the wait until an import is served.
CALL_S = 30
SERVED_S = 60

# The contract's worked scores, by how many of the request's keywords the ads have.
WORKED = {
    250: [23.827545, 185.484336, 282.850528, 352.746743],
    200: [19.062036, 148.387469, 226.280422, 282.197395],
}
KEYWORDS = ["car", "luxury", "style"]


def from_contract(proto_dir, out_dir):
    """Compiles the contract into `out_dir`; its messages, and a maker of stubs."""
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    files = sorted(pathlib.Path(proto_dir).glob("slotwise/v1/*.proto"))
    assert files, f"{proto_dir} holds no contract"
    arguments = ["protoc", f"-I{proto_dir}", f"-I{well_known}"]
    arguments += [f"--python_out={out_dir}", f"--grpc_python_out={out_dir}"]
    failed = protoc.main(arguments + [str(file) for file in files])
    assert failed == 0, "protoc does not take the contract"
    sys.path.insert(0, out_dir)
    load = lambda name: importlib.import_module(f"slotwise.v1.{name}")
    decision, catalog = load("decision_pb2"), load("catalog_pb2")
    return SimpleNamespace(
        message=lambda name: getattr(catalog, name, None) or getattr(decision, name),
        decisions=load("decision_pb2_grpc").AdDecisionServiceStub,
        catalog=load("catalog_pb2_grpc").CatalogServiceStub,
    )


def from_reflection(decision_channel, admin_channel):
    """The same from the two doors' reflection; no file of ours is read."""
    doors = {
        "AdDecisionService": reflected(decision_channel, "AdDecisionService"),
        "CatalogService": reflected(admin_channel, "CatalogService"),
    }
    messages = {}
    for service in doors.values():
        for descriptor in service.file.message_types_by_name.values():
            messages[descriptor.name] = message_factory.GetMessageClass(descriptor)
    return SimpleNamespace(
        message=messages.__getitem__,
        decisions=lambda channel: stub(channel, doors["AdDecisionService"]),
        catalog=lambda channel: stub(channel, doors["CatalogService"]),
    )


def reflected(channel, name):
    """The descriptor of one service, as the door at `channel` describes it."""
    database = ProtoReflectionDescriptorDatabase(channel)
    services = database.get_services()
    assert f"{PACKAGE}.{name}" in services, f"{name} is not among {services}"
    pool = descriptor_pool.DescriptorPool(database)
    return pool.FindServiceByName(f"{PACKAGE}.{name}")


def stub(channel, service):
    """Callables for every method of `service`, as generated code would have them."""
    calls = SimpleNamespace()
    for method in service.methods:
        arity = [
            "stream" if method.client_streaming else "unary",
            "stream" if method.server_streaming else "unary",
        ]
        answer = message_factory.GetMessageClass(method.output_type)
        call = getattr(channel, "_".join(arity))(
            f"/{service.full_name}/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        setattr(calls, method.name, call)
    return calls


def steps(api, name):
    """An import: account, site and zone called `name`, and two ads that differ in eCPM."""
    record = lambda **fields: api.message("ImportRequest")(record=fields)
    place = {"site_id": name, "zone_id": "top"}
    yield record(account={"account_id": name, "currency": "EUR", "time_zone": "Europe/Vienna"})
    yield record(site={"site_id": name, "account_id": name})
    yield record(zone=place)
    for ecpm in WORKED:
        campaign = f"{name}:{ecpm}"
        price = {"thousand_impressions_micros": ecpm * 1_000_000}
        yield record(campaign={"campaign_id": campaign, "account_id": name, "price": price})
        yield record(
            ad={
                "campaign_id": campaign,
                "ad_unit_id": "ad",
                "zones": [place],
                "keywords": KEYWORDS,
                "landing_url": "https://shop.example/",
            }
        )


def serve(api, name, decisions, catalog):
    """Imports, and waits until a decision is made on what was imported."""
    done = catalog.Import(steps(api, name), timeout=CALL_S)
    assert not done.problems and done.problem_count == 0, done
    ask = api.message("ChooseAdsRequest")(site_id=name, zone_id="top", dry_run=True)
    give_up_at = time.monotonic() + SERVED_S
    while decisions.ChooseAds(ask, timeout=CALL_S).catalog_version < done.catalog_version:
        assert time.monotonic() < give_up_at, "what was imported is not served"
        time.sleep(0.05)


def check_scores(api, name, decisions):
    for matches in range(len(KEYWORDS) + 1):
        ask = api.message("ChooseAdsRequest")(
            site_id=name, zone_id="top", count=2, keywords=KEYWORDS[:matches]
        )
        answer = decisions.ChooseAds(ask, timeout=CALL_S)
        assert len(answer.ads) == 2, answer
        for ad, (ecpm, scores) in zip(answer.ads, WORKED.items()):
            assert ad.campaign_id == f"{name}:{ecpm}" and ad.ad_unit_id == "ad", ad
            assert ad.ecpm_micros == ecpm * 1_000_000, ad
            assert ad.matched_keywords == matches, ad
            assert f"{ad.score:.6f}" == f"{scores[matches]:.6f}", ad
        found = " and ".join(f"{ad.score:.6f}" for ad in answer.ads)
        print(f"{name}: {matches} matches score {found}")


def check_refusal(api, name, decisions):
    ask = api.message("ChooseAdsRequest")(site_id=name, zone_id="top", count=101)
    try:
        decisions.ChooseAds(ask, timeout=CALL_S)
    except grpc.RpcError as error:
        status = rpc_status.from_call(error)
    else:
        raise AssertionError("count 101 is not refused")
    assert status is not None, "the refusal has no google.rpc.Status"
    assert status.code == code_pb2.INVALID_ARGUMENT, status
    fields = []
    for detail in status.details:
        bad = error_details_pb2.BadRequest()
        if detail.Unpack(bad):
            fields += [violation.field for violation in bad.field_violations]
    assert fields == ["count"], status
    print(f"{name}: count 101 is INVALID_ARGUMENT, naming {fields[0]}: {status.message}")


def main(decision_addr, admin_addr, proto_dir):
    with (
        grpc.insecure_channel(decision_addr) as decision_channel,
        grpc.insecure_channel(admin_addr) as admin_channel,
        tempfile.TemporaryDirectory() as out_dir,
    ):
        for name, api in [
            ("contract", from_contract(proto_dir, out_dir)),
            ("reflection", from_reflection(decision_channel, admin_channel)),
        ]:
            decisions, catalog = api.decisions(decision_channel), api.catalog(admin_channel)
            serve(api, name, decisions, catalog)
            check_scores(api, name, decisions)
            check_refusal(api, name, decisions)


if __name__ == "__main__":
    main(*sys.argv[1:])
