// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import "errors"

// ErrInvalidConfig is wrapped by what NewView returns when its Config cannot work.
var ErrInvalidConfig = errors.New("invalid view configuration")
