package oracle

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// certificate makes a certificate and its key of a name such as "p256"; one that ends with "-v1" is of X.509 version 1.
func certificate(name string) (any, error) {
	var key crypto.Signer
	var err error
	kind, old := name, false
	if len(name) > 3 && name[len(name)-3:] == "-v1" {
		kind, old = name[:len(name)-3], true
	}
	switch kind {
	case "p224":
		key, err = ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	case "p256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "p384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "p521":
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		err = fmt.Errorf("there is no key %q", kind)
	}
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "larder"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err == nil && old {
		der, err = versionOne(der, key)
	}
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return result{
		"certificate": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"key":         string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}, nil
}

// versionOne is the same certificate without its version and its extensions, which version 1 does not have.
func versionOne(der []byte, key crypto.Signer) ([]byte, error) {
	type signed struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	var whole signed
	if _, err := asn1.Unmarshal(der, &whole); err != nil {
		return nil, err
	}
	var fields []byte
	for rest := whole.TBS.Bytes; len(rest) > 0; {
		var field asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &field); err != nil {
			return nil, err
		}
		if field.Class != asn1.ClassContextSpecific {
			fields = append(fields, field.FullBytes...)
		}
	}
	tbs, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: fields})
	if err != nil {
		return nil, err
	}
	hash, digest := crypto.SHA256, sha256.Sum256(tbs)
	signature, err := key.Sign(rand.Reader, digest[:], hash)
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(signed{
		TBS: asn1.RawValue{FullBytes: tbs}, Algorithm: whole.Algorithm,
		Signature: asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)},
	})
}
