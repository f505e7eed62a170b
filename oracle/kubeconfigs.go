package oracle

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig is what clientcmd makes of a file, and client-go of that.
func kubeconfig(path string) (any, error) {
	overrides := &clientcmd.ConfigOverrides{}
	load := func() clientcmd.ClientConfig {
		rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
		return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	}
	config, err := load().ClientConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := load().Namespace()
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	if host := config.Host; server.Scheme == "http" && strings.Contains(host, "://") {
		// Without TLS client-go leaves everything else away; what it would be with TLS is compared.
		overrides.ClusterInfo.Server = "https://" + server.Host
		raw, err := load().RawConfig()
		if err != nil {
			return nil, err
		}
		if context := raw.Contexts[raw.CurrentContext]; context != nil && raw.Clusters[context.Cluster] != nil {
			overrides.ClusterInfo.TLSServerName = raw.Clusters[context.Cluster].TLSServerName
		}
		if config, err = load().ClientConfig(); err != nil {
			return nil, err
		}
		config.Host = host
	}
	authorities, client, err := kindsOfKeys(config)
	if err != nil {
		return nil, err
	}
	headers, info, err := sent(config)
	if err != nil {
		return nil, err
	}
	answer := result{
		"server":      server.String(),
		"server_name": config.ServerName,
		"insecure":    config.Insecure,
		"authorities": blob(config.CAData, config.CAFile),
		"certificate": blob(config.CertData, config.CertFile),
		"key":         blob(config.KeyData, config.KeyFile),
		"key_kinds":   result{"authorities": authorities, "client": client},
		"token_file":  config.BearerTokenFile,
		"username":    config.Username,
		"password":    config.Password,
		"as":          config.Impersonate.UserName,
		"as_uid":      config.Impersonate.UID,
		"as_groups":   config.Impersonate.Groups,
		"as_extra":    config.Impersonate.Extra,
		"namespace":   namespace,
		"compression": !config.DisableCompression,
		"headers":     headers,
		"exec_info":   info,
	}
	if config.BearerTokenFile == "" {
		answer["token"] = config.BearerToken
	}
	if config.Proxy != nil {
		proxy, err := config.Proxy(nil)
		if err != nil {
			return nil, err
		}
		answer["proxy"] = proxy.String()
	}
	if exec := config.ExecProvider; exec != nil {
		answer["exec"] = result{
			"command": exec.Command, "args": exec.Args, "env": exec.Env, "version": exec.APIVersion,
			"hint": exec.InstallHint, "info": exec.ProvideClusterInfo, "mode": exec.InteractiveMode,
			"config": exec.Config,
		}
	}
	return answer, nil
}

// kindsOfKeys says of which kinds the keys of the authorities and of the client's certificate are. Certificates that the first
// handshake would refuse are an error.
func kindsOfKeys(config *rest.Config) (authorities []string, client string, err error) {
	handshake, err := rest.TLSConfigFor(config)
	if err != nil || handshake == nil {
		return nil, "", err
	}
	read := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(read); err != nil {
		return nil, "", err
	}
	for remaining := read.CAData; handshake.RootCAs != nil; {
		var block *pem.Block
		if block, remaining = pem.Decode(remaining); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			authorities = append(authorities, kindOf(certificate))
		}
	}
	if len(read.CertData) == 0 && read.CertFile == "" {
		return authorities, "", nil
	}
	shown, err := handshake.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil {
		return nil, "", err
	}
	certificate, err := x509.ParseCertificate(shown.Certificate[0])
	if err != nil {
		return nil, "", err
	}
	return authorities, kindOf(certificate), nil
}

// sent is what client-go sends with a request: the headers of the user, and what a credential plugin is told before.
func sent(config *rest.Config) (map[string][]string, any, error) {
	toSend, told := rest.CopyConfig(config), ""
	if config.ExecProvider != nil {
		folder, err := os.MkdirTemp("", "oracle")
		if err != nil {
			return nil, nil, err
		}
		defer os.RemoveAll(folder)
		told = filepath.Join(folder, "told")
		toSend.ExecProvider = plugin(config.ExecProvider, told)
	}
	request, err := onWire(toSend)
	if err != nil {
		return nil, nil, err
	}
	var info any
	if text, err := os.ReadFile(told); err == nil {
		info = json.RawMessage(text)
		// The token of the plugin here.
		request.Header.Del("Authorization")
	}
	headers := map[string][]string{}
	for name, values := range request.Header {
		if name == "Authorization" || strings.HasPrefix(name, "Impersonate-") {
			slices.Sort(values)
			headers[strings.ToLower(name)] = values
		}
	}
	return headers, info, nil
}

// plugin is a plugin like this one, that writes what it is told into a file.
func plugin(like *clientcmdapi.ExecConfig, told string) *clientcmdapi.ExecConfig {
	const script = `printf '%s' "$KUBERNETES_EXEC_INFO" > "$0"
printf '{"kind": "ExecCredential", "apiVersion": "%s", "status": {"token": "t"}}' "$1"`
	plugin := like.DeepCopy()
	plugin.Config = like.Config
	plugin.Command, plugin.Args = "/bin/sh", []string{"-c", script, told, like.APIVersion}
	return plugin
}

// onWire is a request as a server of these settings gets it.
func onWire(config *rest.Config) (*http.Request, error) {
	near, far := net.Pipe()
	defer far.Close()
	dial := func(context.Context, string, string) (net.Conn, error) { return near, nil }
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	sender, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, err
	}
	var got *http.Request
	served := make(chan error, 1)
	go func() {
		var err error
		if got, err = http.ReadRequest(bufio.NewReader(far)); err == nil {
			_, err = far.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
		}
		served <- err
	}()
	request, err := http.NewRequest(http.MethodGet, "http://server/", nil)
	if err != nil {
		return nil, err
	}
	response, err := sender.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	return got, errors.Join(response.Body.Close(), <-served)
}

func blob(data []byte, file string) any {
	switch {
	case len(data) > 0:
		return data
	case file != "":
		return result{"file": file}
	default:
		return nil
	}
}
