// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/pem"
	"errors"
	"strings"
)

// splitPEM separates a private key from certificates.
func splitPEM(raw []byte) (key, certs []byte, err error) {
	var keys, others bytes.Buffer
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		out := &others
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			out = &keys
		}
		if err := pem.Encode(out, block); err != nil {
			return nil, nil, err
		}
	}
	if keys.Len() == 0 || others.Len() == 0 {
		return nil, nil, errors.New("the file of the server's keys has no key or no certificate: remove it, and new ones are made")
	}
	return keys.Bytes(), others.Bytes(), nil
}
