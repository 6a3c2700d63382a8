#!/usr/bin/env bash
# Prints the sum of the second column of a list of prices.
sum=0
while IFS=, read -r _ price; do
  sum=$((sum + price))
done < <(tail -n +3 "$1")
echo "$sum"
