#!/bin/sh
# As in Lambda's base images: under the emulator unless a runtime API is there already.
if [ $# -ne 1 ]; then echo 'the handler is the one argument' >&2; exit 142; fi
export _HANDLER="$1"
bootstrap=/var/runtime/bootstrap
[ -x "$bootstrap" ] || bootstrap=/var/task/bootstrap
if [ -z "$AWS_LAMBDA_RUNTIME_API" ]; then exec /usr/local/bin/aws-lambda-rie "$bootstrap"; fi
exec "$bootstrap"
