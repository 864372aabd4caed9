"""HashingEmbeddings passes the standard tests for embeddings of LangChain."""

from langchain_tests.unit_tests import EmbeddingsUnitTests

from langchain_tooltree import HashingEmbeddings


class TestHashingEmbeddings(EmbeddingsUnitTests):
    @property
    def embeddings_class(self):
        return HashingEmbeddings

    @property
    def embedding_model_params(self):
        return {"dims": 64}
