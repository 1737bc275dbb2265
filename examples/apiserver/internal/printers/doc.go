// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package printers makes the tables that kubectl get shows. A client asks for them with
// "Accept: application/json;as=Table;g=meta.k8s.io;v=v1"; without a converter of its own a resource has name and age only.
//
//	resource       columns                                             with -o wide also
//	services       NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE        SELECTOR
//	servicecidrs   NAME CIDRS AGE
//	ipaddresses    NAME PARENTREF AGE
//	namespaces     NAME STATUS AGE
//
// # Rules
//
// A column of priority 0 is always shown, one of priority 1 only when wide; the server sends both, the client chooses.
// Every cell is there in each row, in the order of the columns. The descriptions are those of the fields, which
// kubectl explain shows too. An object that a converter does not know is an error, never an empty row.
package printers
