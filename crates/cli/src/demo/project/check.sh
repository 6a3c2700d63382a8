#!/usr/bin/env bash
# Passes when the total of prices.csv is right.
got=$(bash total.sh prices.csv)
if [ "$got" = 42 ]; then
  echo "check passed"
else
  echo "check failed: expected 42, got $got"
  exit 1
fi
