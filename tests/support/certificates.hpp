// Certificates made for one test with the OpenSSL library, so that none in the tree can run out.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "support/temporary_folder.hpp"

namespace parsyn::test {

/// An authority, with its own key, that signs certificates into a folder.
class CertificateAuthority {
 public:
  explicit CertificateAuthority(const TemporaryFolder &folder, const std::string &name)
      : folder_(folder),
        key_(new_key()),
        certificate_(signed_certificate(name, key_.get(), nullptr, key_.get(), "CA:TRUE", "")) {
    file_ = folder_.file(name + ".pem", pem_of(certificate_.get()));
  }

  /// PEM of the authority's own certificate.
  const std::filesystem::path &file() const { return file_; }

  struct Files {
    std::filesystem::path certificate;
    std::filesystem::path private_key;
  };
  /// `alternative_names`: as OpenSSL writes them, "IP:127.0.0.1,DNS:localhost".
  Files issue(const std::string &name, const std::string &alternative_names) const {
    const Key key = new_key();
    const Certificate certificate =
        signed_certificate(name, key.get(), certificate_.get(), key_.get(), "CA:FALSE", alternative_names);
    return {folder_.file(name + ".pem", pem_of(certificate.get())),
            folder_.file(name + ".key", pem_of(key.get()))};
  }

 private:
  struct Free {
    void operator()(EVP_PKEY *key) const { EVP_PKEY_free(key); }
    void operator()(X509 *certificate) const { X509_free(certificate); }
    void operator()(BIO *bio) const { BIO_free(bio); }
    void operator()(X509_EXTENSION *extension) const { X509_EXTENSION_free(extension); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;

  static void check(bool good) {
    if (!good) throw std::runtime_error("OpenSSL could not make a certificate");
  }

  static Key new_key() {
    Key key(EVP_EC_gen("P-256"));
    check(key != nullptr);
    return key;
  }

  static void extend(X509 *certificate, X509 *issuer, int kind, const std::string &value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    const std::unique_ptr<X509_EXTENSION, Free> extension(
        X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
    check(extension && X509_add_ext(certificate, extension.get(), -1) == 1);
  }

  static Certificate signed_certificate(const std::string &name, EVP_PKEY *key, X509 *issuer,
                                        EVP_PKEY *issuer_key, const std::string &basic,
                                        const std::string &alternative_names) {
    static long serial = 1;
    Certificate certificate(X509_new());
    check(certificate != nullptr);
    X509 *it = certificate.get();
    X509_set_version(it, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(it), serial++);
    X509_gmtime_adj(X509_getm_notBefore(it), -3600);
    X509_gmtime_adj(X509_getm_notAfter(it), 24 * 3600);
    X509_set_pubkey(it, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(it), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char *>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(it, X509_get_subject_name(issuer ? issuer : it));
    extend(it, issuer ? issuer : it, NID_basic_constraints, "critical," + basic);
    extend(it, issuer ? issuer : it, NID_subject_key_identifier, "hash");
    if (!alternative_names.empty()) extend(it, issuer ? issuer : it, NID_subject_alt_name, alternative_names);
    check(X509_sign(it, issuer_key, EVP_sha256()) != 0);
    return certificate;
  }

  static std::string text_of(BIO *bio) {
    char *data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return std::string(data, static_cast<std::size_t>(size));
  }
  static std::string pem_of(X509 *certificate) {
    const std::unique_ptr<BIO, Free> bio(BIO_new(BIO_s_mem()));
    check(bio && PEM_write_bio_X509(bio.get(), certificate) == 1);
    return text_of(bio.get());
  }
  static std::string pem_of(EVP_PKEY *key) {
    const std::unique_ptr<BIO, Free> bio(BIO_new(BIO_s_mem()));
    check(bio && PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
    return text_of(bio.get());
  }

  const TemporaryFolder &folder_;
  Key key_;
  Certificate certificate_;
  std::filesystem::path file_;
};

}  // namespace parsyn::test
