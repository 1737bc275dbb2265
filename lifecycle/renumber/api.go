// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/url"
	"reflect"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
)

// API is what the runner needs of a cluster. NewAPI makes one of a clientset.
type API interface {
	corev1client.ServicesGetter
	corev1client.SecretsGetter
	coordinationv1client.LeasesGetter
	ServiceCIDRs() networkingv1client.ServiceCIDRInterface
	IPAddresses() networkingv1client.IPAddressInterface
	// ServerRanges returns the --service-cluster-ip-range of the API server that
	// answers; nil if it does not tell (before v1.36, or without the permission).
	ServerRanges(ctx context.Context) ([]string, error)
}

type clientset struct {
	corev1client.ServicesGetter
	corev1client.SecretsGetter
	coordinationv1client.LeasesGetter
	networking networkingv1client.NetworkingV1Interface
	client     kubernetes.Interface
}

// NewAPI is a cluster behind a clientset.
func NewAPI(client kubernetes.Interface) API {
	return clientset{client.CoreV1(), client.CoreV1(), client.CoordinationV1(), client.NetworkingV1(), client}
}

func (c clientset) ServiceCIDRs() networkingv1client.ServiceCIDRInterface {
	return c.networking.ServiceCIDRs()
}

func (c clientset) IPAddresses() networkingv1client.IPAddressInterface {
	return c.networking.IPAddresses()
}

// flagzTypes are the structured answers of /flagz (KEP-4828), newest first. The plain
// text is not for programs: it says so, and changes its delimiter at random.
const flagzTypes = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz,application/json;v=v1alpha1;g=config.k8s.io;as=Flagz"

// ServerRanges reads /flagz.
func (c clientset) ServerRanges(ctx context.Context) ([]string, error) {
	client := c.client.Discovery().RESTClient()
	if client == nil || reflect.ValueOf(client).IsNil() {
		return nil, nil
	}
	raw, err := client.Get().AbsPath("/flagz").SetHeader("Accept", flagzTypes).DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsNotAcceptable(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var answer struct {
		Flags map[string]string `json:"flags"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		// Another server than kube-apiserver may serve anything here.
		return nil, nil
	}
	ranges := answer.Flags["service-cluster-ip-range"]
	if ranges == "" {
		return nil, nil
	}
	return strings.Split(ranges, ","), nil
}

// passing tells whether an error may go away by itself: the server is not there, is
// starting or overloaded, or its answer was lost.
func passing(err error) bool {
	var netErr net.Error
	var urlErr *url.Error
	switch {
	case errors.Is(err, context.Canceled):
		return false
	case apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err),
		apierrors.IsServiceUnavailable(err), apierrors.IsInternalError(err), apierrors.IsUnexpectedServerError(err):
		return true
	case utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err), utilnet.IsProbableEOF(err),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE), errors.Is(err, context.DeadlineExceeded):
		return true
	case errors.As(err, &netErr) && netErr.Timeout():
		return true
	case errors.As(err, &urlErr):
		// Neither a certificate nor a name becomes right by waiting, but a server that
		// starts may answer with half of anything.
		return utilnet.IsHTTP2ConnectionLost(err) || urlErr.Temporary()
	}
	return false
}

// persist calls until the error is not a passing one, for as long as the runner's
// patience. It returns the last error.
func (r *Runner) persist(ctx context.Context, call func(context.Context) error) error {
	begin, pause := r.clock.Now(), 50*time.Millisecond
	for {
		callCtx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
		err := call(callCtx)
		cancel()
		if err == nil || !passing(err) || ctx.Err() != nil || r.clock.Since(begin) > r.cfg.Patience {
			return err
		}
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			pause = max(pause, time.Duration(seconds)*time.Second)
		}
		if !r.sleep(ctx, pause) {
			return err
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// sleep waits, and reports whether the context allowed it.
func (r *Runner) sleep(ctx context.Context, d time.Duration) bool {
	timer := r.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}
