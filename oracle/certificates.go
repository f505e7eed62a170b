package oracle

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha256"
	_ "crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"strings"
	"time"
)

// keys are the keys made so far, by their kind: RSA keys take long to make, and certificates of one kind share one.
var keys = map[string]crypto.Signer{}

// certificate makes a certificate and gives the key of it, for a name such as "p256" or "rsa2048-v1": the kind of key, and
// what is special about the certificate. All of a kind have the same key.
func certificate(name string) (any, error) {
	kind, special, _ := strings.Cut(name, "-")
	key, err := keyOfKind(kind)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "larder"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"server.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	switch special {
	case "", "v1":
	case "expired":
		template.NotBefore, template.NotAfter = template.NotBefore.AddDate(-2, 0, 0), template.NotAfter.AddDate(-1, 0, 0)
	case "server":
		template.IsCA, template.ExtKeyUsage = false, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	case "critical":
		template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}}
	default:
		return nil, fmt.Errorf("there is no certificate %q", special)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err == nil && special == "v1" {
		der, err = versionOne(der, key)
	}
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	answer := result{"certificate": block("CERTIFICATE", der), "key": block("PRIVATE KEY", private)}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		answer["own_key"] = block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	case *ecdsa.PrivateKey:
		private, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, err
		}
		answer["own_key"] = block("EC PRIVATE KEY", private)
	}
	return answer, nil
}

func block(label string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der}))
}

// keyOfKind is the key of a kind, such as "p256" or "rsa2048".
func keyOfKind(kind string) (key crypto.Signer, err error) {
	if key := keys[kind]; key != nil {
		return key, nil
	}
	curves := map[string]elliptic.Curve{
		"p224": elliptic.P224(), "p256": elliptic.P256(), "p384": elliptic.P384(), "p521": elliptic.P521(),
	}
	if curve := curves[kind]; curve != nil {
		key, err = ecdsa.GenerateKey(curve, rand.Reader)
	} else if bits, found := strings.CutPrefix(kind, "rsa"); found {
		var number int
		if number, err = strconv.Atoi(bits); err == nil {
			key, err = rsa.GenerateKey(rand.Reader, number)
		}
	} else if kind == "ed25519" {
		_, key, err = ed25519.GenerateKey(rand.Reader)
	} else {
		err = fmt.Errorf("there is no key %q", kind)
	}
	if err != nil {
		return nil, err
	}
	keys[kind] = key
	return key, nil
}

// kindOf says of which kind the key of a certificate is, such as "p256" or "rsa2048".
func kindOf(certificate *x509.Certificate) string {
	switch key := certificate.PublicKey.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("rsa%d", key.N.BitLen())
	case *ecdsa.PublicKey:
		return strings.ToLower(strings.ReplaceAll(key.Curve.Params().Name, "-", ""))
	case ed25519.PublicKey:
		return "ed25519"
	default:
		return fmt.Sprintf("%T", key)
	}
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
	signature, err := sign(tbs, key)
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(signed{
		TBS: asn1.RawValue{FullBytes: tbs}, Algorithm: whole.Algorithm,
		Signature: asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)},
	})
}

// sign signs with the hash that x509.CreateCertificate takes for the key.
func sign(tbs []byte, key crypto.Signer) ([]byte, error) {
	if _, is := key.(ed25519.PrivateKey); is {
		return key.Sign(rand.Reader, tbs, crypto.Hash(0))
	}
	hash := crypto.SHA256
	if key, is := key.(*ecdsa.PrivateKey); is {
		switch key.Curve {
		case elliptic.P384():
			hash = crypto.SHA384
		case elliptic.P521():
			hash = crypto.SHA512
		}
	}
	digest := hash.New()
	digest.Write(tbs)
	return key.Sign(rand.Reader, digest.Sum(nil), hash)
}
