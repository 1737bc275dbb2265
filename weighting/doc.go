// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package weighting draws one of many slots with a probability exactly in proportion
// to an integer weight, and says what a ServiceCIDR weighs.
//
// Each slot has a Rank: a tier and a weight. Only the lowest tier that has any weight
// takes part in a draw; a slot of weight 0 is never drawn. A Tree keeps, for each
// pair of subtrees, the best tier below and the total weight of exactly that tier:
//
//	                tier 0, 1280
//	               /            \
//	      tier 0, 1280          tier 1, 64       not in the draw: a worse tier
//	      /          \          /       \
//	  0, 256      0, 1024    1, 64     0, 0      the slots; the last one is empty
//
//	draw: r uniform in [0, 1280): below 256 the first slot, else the second
//
// A draw takes one number from the root's total and walks down, a change of a slot
// walks up: O(log n) each, no allocation, whatever the weights are.
//
// Rules:
//
//   - Integers only, up to 2^128-1. No rounding: with total weight W, each slot owns as
//     many of the numbers 0 to W-1 as its weight says.
//   - Random numbers come from the caller's rand.Source, and are made uniform by rejection,
//     not by modulo.
//   - A Strategy turns what is known of a ServiceCIDR into a Rank. Whatever it prefers,
//     a candidate without a free address has weight 0.
package weighting
