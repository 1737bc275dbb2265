// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package comparison

// difference is one value that is not the same on both servers. In the table below a * at the end stands for anything.
type difference struct {
	scenario string
	step     string
	path     string
	kube     string // "" if it is not there
	ours     string
	why      string // why it is right, in the table only
}

// differences are all there are.
var differences = []difference{}
