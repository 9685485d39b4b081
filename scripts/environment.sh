# The virtual environment of `serve` and `test`: found or made by `prepare_environment`, which sets $checkout and $venv.

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

give_up() {
    printf '%s\n' "$*" >&2
    exit 1
}

# prepare_environment EXTRAS: EXTRAS is empty, or the bracketed extras to install beside the service, such as "[test]".
prepare_environment() {
    local extras=$1 python stamp wanted
    export USSD_DATA_DIR=${USSD_DATA_DIR:-$checkout/var}
    if [ ! -w "$checkout" ]; then
        copy_checkout
    fi
    venv=$checkout/.venv
    stamp=$venv/installed$extras
    python=$(find_python)
    # Another checkout, Python or version needs a new environment.
    wanted=$(cd "$checkout" && { echo "$checkout" && "$python" --version && cat pyproject.toml setup.cfg setup.py constraints.txt; } | cksum)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && "$venv/bin/python" -c '' 2>/dev/null; then
        return
    fi
    # Two simultaneous starts must not install into the same folder.
    exec 9>"$checkout/.venv.lock"
    if command -v flock >/dev/null; then flock 9; fi
    install_into_environment "$python" "$extras"
    # An environment for tests has what serves, too.
    printf '%s\n' "$wanted" | tee "$stamp" >"$venv/installed[serve]"
    exec 9>&-
}

# A read-only checkout is copied to the data folder and used from there.
copy_checkout() {
    local copy=$USSD_DATA_DIR/checkout
    (umask 077 && mkdir -p "$copy") 2>/dev/null && [ -w "$copy" ] ||
        give_up "The folder $checkout is read-only: set USSD_DATA_DIR to a folder that can be written to."
    (cd "$checkout" && tar --exclude=./.git --exclude=./.venv --exclude=./var -cf - .) | tar -C "$copy" -xf - ||
        give_up "The checkout could not be copied to $copy; is the disk full?"
    checkout=$copy
}

# The first Python from 3.11 on that can make virtual environments.
find_python() {
    local name lacks_venv=
    for name in python3.11 python3.12 python3.13 python3.14 python3 python; do
        "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        if "$name" -c 'import venv, ensurepip' 2>/dev/null; then
            command -v "$name"
            return
        fi
        lacks_venv=$name
    done
    if [ -n "$lacks_venv" ]; then
        give_up "$lacks_venv cannot make virtual environments: install its venv module (on Debian and Ubuntu: $lacks_venv-venv)."
    fi
    give_up "Python 3.11 or newer was not found: install it and start this again."
}

install_into_environment() {
    local python=$1 extras=$2 log=$checkout/.venv/install.log
    echo "Installing the service's libraries; this happens once and takes a minute or two." >&2
    if ! "$venv/bin/python" -c '' 2>/dev/null || ! grep -qsF "$venv" "$venv/bin/pip"; then
        "$python" -m venv --clear "$venv" >/dev/null 2>&1 ||
            give_up "The virtual environment $venv could not be made; is the disk full?"
    fi
    # Nothing is written to the home folder unless PIP_CACHE_DIR says so.
    if [ -z "${PIP_CACHE_DIR:-}" ]; then export PIP_NO_CACHE_DIR=1; fi
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_RETRIES=${PIP_RETRIES:-2}
    if ! (cd "$checkout" && "$venv/bin/python" -m pip install --no-input -c constraints.txt -e ".$extras") >"$log" 2>&1; then
        if grep -qE 'NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|MaxRetryError|from versions: none' "$log"; then
            give_up "The libraries could not be fetched because there is no network: connect this machine, or name a mirror or a folder of wheels with pip's own settings."
        fi
        give_up "The libraries could not be installed; $log says why."
    fi
}
