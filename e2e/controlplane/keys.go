// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"time"
)

// validity of every certificate; the start lies a little in the past, for clocks
// that are set back while a test runs.
const (
	validFor    = 30 * 24 * time.Hour
	validBefore = time.Hour
)

// authority signs the certificates of one control plane. Its key is never written.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte // the certificate
}

// pair is a certificate and its key, PEM.
type pair struct{ cert, key []byte }

func newAuthority() (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := newTemplate("metacidr-controlplane-ca")
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the CA's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the CA's certificate: %w", err)
	}
	return &authority{cert: cert, key: key, pem: encodePEM("CERTIFICATE", der)}, nil
}

// issue makes a certificate for server and client use. It always names localhost and
// 127.0.0.1; dnsNames and addrs are further names of it.
func (a *authority) issue(commonName string, dnsNames []string, addrs []netip.Addr) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	template, err := newTemplate(commonName)
	if err != nil {
		return pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = append([]string{"localhost"}, dnsNames...)
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, addr := range addrs {
		template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return pair{}, fmt.Errorf("make the certificate of %s: %w", commonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: encodePEM("CERTIFICATE", der), key: keyPEM}, nil
}

// clientTLS returns the settings of a client that trusts the authority and, if p is
// given, shows its certificate.
func (a *authority) clientTLS(p *pair) (*tls.Config, error) {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if p != nil {
		cert, err := tls.X509KeyPair(p.cert, p.key)
		if err != nil {
			return nil, fmt.Errorf("read a client's certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

// write stores the pair as base.crt and base.key.
func (p pair) write(base string) error {
	if err := os.WriteFile(base+".crt", p.cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(base+".key", p.key, 0o600)
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

func newTemplate(commonName string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    now.Add(-validBefore),
		NotAfter:     now.Add(validFor),
	}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return encodePEM("EC PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
