"""Which names say secret: the one list of dry runs, records, MLflow and rule WS802."""

from __future__ import annotations

import pytest

from worldsize.documents.secrecy.names import is_secret, words

SECRET = words("""
    HF_TOKEN AZURE_CLIENT_SECRET DB_PASSWORD PGPASSWORD STORAGE_ACCOUNT_KEY api_key BLOB_SAS
    BLOB_SAS_URL AZURE_STORAGE_CONNECTION_STRING AWS_SECRET_ACCESS_KEY Cookie HTTP_AUTHORIZATION
    SSH_PASSPHRASE GITHUB_PAT AZUREML_PARAMETER_password AZUREML_SWEEP_api_key AZURE_DEVOPS_EXT_PAT
    SAS_URL AZURE_STORAGE_KEY SUBSCRIPTION_KEY OCP_APIM_SUBSCRIPTION_KEY CLIENT_SECRET CONNECTION_STRING
    connectionString apiKey storageKey api-token service.key credentials.value train.api_token
    WANDB_API_KEY KEY TOKEN password pwd DB_PW DB_PASS private_key SIGNING_KEY COSMOS_PRIMARY_KEY
    AZURE_SEARCH_KEY SLACK_BOT_TOKEN SLACK_WEBHOOK_URL SENTRY_DSN VAULT_SECRET_ID AWS_ACCESS_KEY_ID
    API_KEY_1 KEY1 API_KEY_PROD HF_TOKEN_READ MYSQL_PWD REDIS_AUTH BASIC_AUTH BEARER_TOKEN jwt ssh_key
    SharedAccessKey SASToken accountkey clientSecret secrets DB_CREDENTIALS refresh_token id_token
    PASSWORD_HASH SMTP_PASS APPLICATIONINSIGHTS_CONNECTION_STRING WEBHOOK_SECRET encryption_key
    access_key_value CONN_STR
""")
OTHER = words("""
    TOKENS TOKENIZERS_PARALLELISM tokenizer PATH max_tokens NCCL_DEBUG seed KEY_COLUMN token_count
    primary_key sort_key pass_through author AUTHOR monkey keyboard pad_token eos_token mask_token
    num_key_value_heads query_key_value key_value key_dim public_key SECRET_NAME KEY_VAULT KEY_VAULT_URL
    HF_TOKEN_PATH PASSWORD_FILE password_length token_type token_id eos_token_id tokens_per_batch
    n_tokens num_passes forward_pass first_pass bypass compass passthrough PWD OLDPWD foreign_key
    partition_key hockey turkey patience pattern spatial path compat use_auth_token no_auth auth_mode
    authority AZURE_AUTHORITY_HOST oauth_scopes label_key image_key cache_key keys dict_keys sas_expiry
    assassin tokenize detokenize secretary cookie_domain passed passes token_embedding cls_token
    key_frame hotkey key_padding_mask tie_word_embeddings include_pat group_key AUTH_URL CREDENTIAL_TYPE
    has_password connection_timeout data batch_size learning_rate epochs monkeypatch keystone donkey lr
    weight_decay key_name token_dim
""")


@pytest.mark.parametrize("name", sorted(SECRET))
def test_names_that_say_secret(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", sorted(OTHER))
def test_names_that_do_not(name: str) -> None:
    assert not is_secret(name)
