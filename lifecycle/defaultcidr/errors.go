// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import "errors"

// Kinds of errors, to test for with errors.Is. An error of the API server is
// none of these and is returned wrapped.
var (
	// ErrInvalidConfig is wrapped by what New returns. The text names the field
	// and what to write instead.
	ErrInvalidConfig = errors.New("invalid configuration of the default ServiceCIDR")
	// ErrNotConsistent is wrapped, beside the context's error, by what
	// WaitConsistent returns. The text has the last finding and its remedy.
	ErrNotConsistent = errors.New("the default ServiceCIDR is not as configured")
)
