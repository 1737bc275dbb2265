// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	unionauthn "k8s.io/apiserver/pkg/authentication/request/union"
	x509authn "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	pathauthz "k8s.io/apiserver/pkg/authorization/path"
	unionauthz "k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
)

// ViewersGroup may read everything, and write nothing.
const ViewersGroup = "metacidr:viewers"

// openPaths are what anybody may get.
func openPaths() []string {
	return []string{"/livez", "/livez/*", "/readyz", "/readyz/*", "/healthz", "/healthz/*"}
}

// authentication knows the admin, the users of the token file, and those with a client certificate.
func authentication(o *Options, adminToken string, clientCAs *x509.CertPool) (authenticator.Request, error) {
	admin := tokenfile.New(map[string]*user.DefaultInfo{adminToken: {Name: "admin", UID: "admin", Groups: []string{user.SystemPrivilegedGroup}}})
	all := []authenticator.Request{bearertoken.New(admin)}
	if o.TokenFile != "" {
		users, err := tokenfile.NewCSV(o.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-auth-file: %w", err)
		}
		all = append(all, bearertoken.New(users))
	}
	if clientCAs != nil {
		opts := x509authn.DefaultVerifyOptions()
		opts.Roots = clientCAs
		all = append(all, x509authn.New(opts, x509authn.CommonNameUserConversion))
	}
	known := group.NewAuthenticatedGroupAdder(unionauthn.New(all...))
	var anybody []apiserver.AnonymousAuthCondition
	for _, p := range []string{"/livez", "/readyz", "/healthz"} {
		anybody = append(anybody, apiserver.AnonymousAuthCondition{Path: p})
	}
	return unionauthn.NewFailOnError(known, anonymous.NewAuthenticator(anybody)), nil
}

// authorization allows the admins everything, viewers to read, all that are known to see what is served, and nothing else.
func authorization() (authorizer.Authorizer, error) {
	open, err := pathauthz.NewAuthorizer(openPaths())
	if err != nil {
		return nil, err
	}
	return unionauthz.New(
		unionauthz.NamedAuthorizer{AuthorizerName: "open", Authorizer: open},
		unionauthz.NamedAuthorizer{AuthorizerName: "admins", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		unionauthz.NamedAuthorizer{AuthorizerName: "viewers", Authorizer: authorizer.AuthorizerFunc(viewers)},
	)
}

func viewers(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	groups := a.GetUser().GetGroups()
	reads := slices.Contains([]string{"get", "list", "watch"}, a.GetVerb())
	switch {
	case !a.IsResourceRequest() && reads && slices.Contains(groups, user.AllAuthenticated) && a.GetPath() != "/metrics":
		return authorizer.DecisionAllow, "", nil
	case reads && slices.Contains(groups, ViewersGroup):
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// ownKeys makes the server's certificate and the admin's token, once.
func ownKeys(o *Options) (cert, key []byte, adminToken string, err error) {
	adminToken, err = kept(o.file("admin.token"), func() ([]byte, error) {
		raw := make([]byte, 32)
		if _, err := rand.Read(raw); err != nil {
			return nil, err
		}
		return []byte(hex.EncodeToString(raw)), nil
	})
	if err != nil || o.TLSCertFile != "" {
		if err == nil {
			cert, err = os.ReadFile(o.TLSCertFile)
		}
		return cert, nil, adminToken, err
	}
	name := "localhost"
	ips := []net.IP{o.BindAddress, net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	pair, err := kept(o.file("apiserver.pem"), func() ([]byte, error) {
		cert, key, err := certutil.GenerateSelfSignedCertKey(name, ips, nil)
		if err != nil {
			return nil, err
		}
		return slices.Concat(key, cert), nil
	})
	if err != nil {
		return nil, nil, "", err
	}
	key, cert, err = splitPEM([]byte(pair))
	return cert, key, adminToken, err
}

// kept reads a file that only its owner may read, or makes it.
func kept(path string, make func() ([]byte, error)) (string, error) {
	raw, err := os.ReadFile(path)
	if err == nil {
		return string(raw), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if raw, err = make(); err != nil {
		return "", err
	}
	return string(raw), writeFile(path, raw)
}

// writeFile leaves the whole content or what was there.
func writeFile(path string, raw []byte) error {
	next := path + ".new"
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// writeKubeconfig writes the admin's.
func writeKubeconfig(path string, address net.IP, port int, ca []byte, token string) error {
	const name = "metacidr"
	if address.IsUnspecified() {
		address = net.IPv4(127, 0, 0, 1)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + net.JoinHostPort(address.String(), strconv.Itoa(port)), CertificateAuthorityData: ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	raw, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeFile(path, raw)
}
