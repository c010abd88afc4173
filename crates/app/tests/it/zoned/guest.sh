#!/bin/busybox sh
# What runs in the guest, as its only process: stores on drives whose zones the kernel keeps. Each
# claim is named; the first that does not hold ends the run. The last line says that all of them do.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
for module in configfs null_blk scsi_common scsi_mod sd_mod scsi_debug; do
    options=
    case $module in
        null_blk) options="nr_devices=0" ;;
        scsi_debug) options="zbc=host-managed dev_size_mb=32 sector_size=4096 zone_size_mb=1
            zone_nr_conv=2 zone_max_open=6" ;;
    esac
    insmod "/modules/$module.ko" $options || echo "$module is built in"
done
mount -t configfs none /sys/kernel/config
cd /tmp || exit

claim() {
    echo "CLAIM $*"
}

fail() {
    echo "FAILED: $*"
    dmesg | tail -n 20
    cat /tmp/gate.log
    poweroff -f
}

# A drive of this name with 32 zones of 1 MiB each: bytes of its blocks, how many zones are
# conventional, and how many of the others can be partly written at a time; 0 for all of them. A
# fifth word makes zones so many MiB long, of which still one can be written.
drive() {
    folder=/sys/kernel/config/nullb/$1
    mkdir "$folder"
    length=${5:-1}
    for setting in memory_backed=1 "size=$((32 * length))" zoned=1 "zone_size=$length" \
        zone_capacity=1 "blocksize=$2" "zone_nr_conv=$3" "zone_max_open=$4" "zone_max_active=$4" \
        power=1; do
        echo "${setting#*=}" >"$folder/${setting%%=*}" || fail "drive $1: $setting"
    done
}

# Runs `evenkeel store ..`, which has to end well.
store() {
    evenkeel store "$@" >said 2>&1 || { cat said; fail "store $*"; }
}

# What it says has this in it, and it ends with this code.
refused() {
    code=$1 words=$2
    shift 2
    evenkeel store "$@" >said 2>&1
    found=$?
    grep -q "$words" said && [ $found = "$code" ] || { cat said; fail "code $found: store $*"; }
}

# A gate on these drives: the first 4 MiB of the volume are `kept`, the 4 MiB behind them `used`.
serve() {
    list=
    for path in "$@"; do list="$list\"$path\", "; done
    cat >policy.toml <<POLICY
listen = ["unix:gate.sock"]
[[backend]]
name = "log"
store = [$list]
[[export]]
name = "kept"
backend = "log"
size = "4 MiB"
[[export]]
name = "used"
backend = "log"
offset = "4 MiB"
size = "4 MiB"
POLICY
    rm -f gate.sock gate.log
    evenkeel serve policy.toml --control control.sock --metrics off >gate.log 2>&1 &
    gate=$!
    tries=0
    until [ -S gate.sock ] && grep -q "open store=" gate.log; do
        sleep 0.1
        tries=$((tries + 1))
        [ $tries -lt 300 ] || fail "the store is not open"
    done
}

put() {
    nbdcopy --flush "$1" "nbd+unix:///$2?socket=gate.sock" || fail "a write to $2"
}

holds() {
    nbdcopy "nbd+unix:///$2?socket=gate.sock" back || fail "a read of $2"
    cmp "$1" back || fail "$2 is not what was written"
}

# Written round and round, killed, recovered, checked: what was flushed is there.
endures() {
    serve "$@"
    grep -q "emulated=true" gate.log && fail "zones of the kernel pass for emulated ones"
    put one kept
    for _ in 1 2 3 4 5 6 7; do put two used; done
    nbdcopy one 'nbd+unix:///used?socket=gate.sock' 2>copy.log &
    copy=$!
    sleep 0.2
    kill -9 $gate
    wait $gate $copy
    serve "$@"
    holds one kept
    put two used
    holds two used
    kill $gate
    wait $gate
    store check "$@"
}

dd if=/dev/urandom of=one bs=1M count=4 2>dd.log
dd if=/dev/urandom of=two bs=1M count=4 2>dd.log

claim "blank drives with zones become a mirror, which is written round, killed and recovered"
drive a 4096 2 8
drive b 512 2 8
store create /dev/a /dev/b --volume 8MiB
grep -q "zones of 1 MiB, 2 of them conventional$" said || fail "$(cat said)"
endures /dev/a /dev/b

claim "what it was written on is not taken without a word"
refused 3 "holds drive 0 of store" create /dev/a

claim "another drive takes the place of one of a mirror"
drive c 4096 2 0
echo 0 >/sys/kernel/config/nullb/b/power
store replace-drive /dev/a --by /dev/c
store check /dev/a /dev/c
serve /dev/a /dev/c
holds one kept
holds two used
kill $gate
wait $gate

claim "zones that hold less than their length, and as few of them open as may be, are enough"
drive d 4096 2 4 2
store create /dev/d --volume 8MiB
endures /dev/d

claim "a disk that speaks the zoned commands of SCSI is a drive like these"
[ -b /dev/sda ] || fail "there is no such disk"
store create /dev/sda --volume 8MiB
endures /dev/sda

claim "drives that cannot hold a store are refused with what is lacking"
drive e 4096 0 0
refused 2 "/dev/e: .*conventional" create /dev/e
drive f 4096 2 3
refused 2 "/dev/f: .*partly written" create /dev/f

claim "a drive with zones that somebody has written is told, and taken with --yes"
drive g 4096 2 8
dd if=one of=/dev/g bs=512k count=1 seek=41 oflag=direct 2>dd.log && fail "written at no pointer"
dd if=one of=/dev/g bs=512k count=1 seek=40 oflag=direct 2>dd.log || fail "$(cat dd.log)"
refused 3 "1 zones that are written" create /dev/g
store create /dev/g --volume 8MiB --yes
serve /dev/g
for _ in 1 2 3 4 5 6 7 8; do put one used; done
holds one used
kill $gate
wait $gate
store check /dev/g
echo "EVERY CLAIM HOLDS"
poweroff -f
