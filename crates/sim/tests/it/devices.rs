//! Every kind of device behind the gate, from end to end.

use evenkeel_core::time::Span;
use evenkeel_engine::policy::Depth;
use evenkeel_sim::device::array::Layout;
use evenkeel_sim::device::hdd;
use evenkeel_sim::device::spec::{
    ArraySpec, ConstantSpec, DelaySpec, DeviceSpec, DriveSource, HddSpec, NbdkitService, RateSpec,
    SsdDevice,
};
use evenkeel_sim::device::ssd::Precondition;
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::result::Summary;
use evenkeel_sim::scenario::{GateSpec, Scenario, Workload};

use crate::scenes::{clients, close, run, scene, shares};

fn behind_the_gate(device: DeviceSpec, depth: u32) -> Scenario {
    let mut scenario = scene(&[2, 1], Depth::Requests(depth));
    scenario.devices[0].device = device;
    scenario.workloads = vec![clients("t0", 2, 16), clients("t1", 2, 16)];
    scenario
}

fn disk() -> DeviceSpec {
    let drive = DriveSource::BuiltIn("cheetah-9lp".to_owned());
    DeviceSpec::Hdd(HddSpec { drive, order: hdd::Policy::Sptf })
}

fn iops(summary: &Summary) -> f64 {
    summary.tenants.iter().map(|tenant| tenant.traffic.iops).sum()
}

#[test]
fn shares_hold_on_a_hard_disk_and_on_an_array_which_is_quicker() {
    let one = run(&behind_the_gate(disk(), 4));
    close(&shares(&one), &[0.667, 0.333], 0.01);
    let layout = Layout::Striped { unit_bytes: 64 << 10 };
    let array = DeviceSpec::Array(ArraySpec { layout, members: vec![disk(); 8] });
    let eight = run(&behind_the_gate(array, 32));
    close(&shares(&eight), &[0.667, 0.333], 0.01);
    assert!((60.0..400.0).contains(&iops(&one)), "{}", iops(&one));
    let ratio = iops(&eight) / iops(&one);
    assert!((4.0..9.0).contains(&ratio), "eight disks are {ratio} times one");
}

#[test]
fn shares_hold_on_a_flash_drive() {
    let drive = DriveSource::BuiltIn("sata-s3500-240gb".to_owned());
    let precondition = Some(Precondition::Sequential);
    let mut scenario = behind_the_gate(DeviceSpec::Ssd(SsdDevice { drive, precondition }), 16);
    scenario.length = Span::from_millis(300);
    scenario.interval = scenario.length;
    let summary = run(&scenario);
    close(&shares(&summary), &[0.667, 0.333], 0.01);
    assert!(iops(&summary) > 20_000.0, "{}", iops(&summary));
}

#[test]
fn a_delay_is_shared_by_its_threads_and_paid_by_each_request() {
    let service = NbdkitService { threads: 4, oversleep: Span::ZERO, ..NbdkitService::default() };
    let spec = DelaySpec { read: Span::from_millis(2), service, ..DelaySpec::default() };
    let summary = run(&behind_the_gate(DeviceSpec::Delay(spec), 4));
    assert!((iops(&summary) - 2_000.0).abs() < 4.0, "four threads of 2 ms: {}", iops(&summary));
    assert_eq!(summary.tenants[0].device_time.mean, Span::from_millis(2));
}

#[test]
fn a_rate_holds_once_its_bucket_is_empty() {
    let service = NbdkitService { oversleep: Span::ZERO, ..NbdkitService::default() };
    let spec = RateSpec { rate_bits: 8 * 40_960_000, service, ..RateSpec::default() };
    let mut scenario = behind_the_gate(DeviceSpec::Rate(spec), 4);
    scenario.warm_up = Span::from_secs(1);
    let summary = run(&scenario);
    assert!((iops(&summary) - 10_000.0).abs() < 50.0, "{}", iops(&summary));
    close(&shares(&summary), &[0.667, 0.333], 0.02);
}

#[test]
fn links_and_the_gate_add_their_time_to_each_request() {
    let mut scenario = scene(&[1], Depth::Requests(4));
    let spec = ConstantSpec { fixed: Span::from_micros(100), ..ConstantSpec::default() };
    scenario.devices[0].device = DeviceSpec::Constant(spec);
    scenario.devices[0].link = LinkSpec { delay: Span::from_micros(30), ..LinkSpec::default() };
    scenario.gate = GateSpec { request_time: Span::from_micros(7) };
    let link = LinkSpec { delay: Span::from_micros(200), ..LinkSpec::default() };
    scenario.workloads = vec![Workload { link, ..clients("t0", 1, 1) }];
    let tenant = &run(&scenario).tenants[0];
    assert_eq!(tenant.traffic.latency.mean, Span::from_micros(200 + 7 + 30 + 100 + 30 + 200));
    assert_eq!(tenant.queue_time.mean, Span::from_micros(7));
    assert_eq!(tenant.device_time.mean, Span::from_micros(160));
}
