"""A client of document stores on the library pymongo: what drivers do, at one address; its documents are in the stores after it."""

import sys

from pymongo import DeleteOne, InsertOne, MongoClient, ReturnDocument, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure


def collection(address):
    return MongoClient(address, serverSelectionTimeoutMS=10_000).city.things


things = collection(sys.argv[1])
stores = [collection(address) for address in sys.argv[2:]]


def count():
    """How many documents there are, which the stores say as well."""
    counted = things.count_documents({})
    assert sum(store.count_documents({}) for store in stores) == counted
    return counted


def error(kind, command):
    try:
        command()
    except kind as caught:
        return caught
    raise AssertionError(f"no {kind.__name__}")


# Inserting, and ids that are taken.
assert things.insert_one({"_id": 0, "speed": 0}).inserted_id == 0
assert len(things.insert_many([{"_id": number, "speed": number} for number in range(1, 1000)]).inserted_ids) == 999
assert count() == things.estimated_document_count() == 1000
assert all(store.count_documents({}) > 1000 / len(stores) * 0.8 for store in stores)
own = things.insert_one({"speed": "own"}).inserted_id
assert things.find_one({"_id": own})["speed"] == "own"
assert things.delete_one({"_id": own}).deleted_count == 1
error(DuplicateKeyError, lambda: things.insert_one({"_id": 7}))

# Changing one document, or one that is not there yet.
changed = things.update_one({"_id": 7}, {"$set": {"a.b": "x"}, "$inc": {"speed": 3}})
assert (changed.matched_count, changed.modified_count) == (1, 1)
assert things.find_one({"_id": 7}) == {"_id": 7, "speed": 10, "a": {"b": "x"}}
things.update_one({"_id": 7}, {"$unset": {"a.b": ""}})
assert things.find_one({"_id": 7}) == {"_id": 7, "speed": 10, "a": {}}
made = things.update_one({"_id": "new"}, {"$set": {"speed": 5}}, upsert=True)
assert (made.matched_count, made.upserted_id) == (0, "new")
found = things.find_one_and_update({"_id": "new"}, {"$inc": {"speed": 1}}, return_document=ReturnDocument.AFTER)
assert found == {"_id": "new", "speed": 6}
assert things.replace_one({"_id": "new"}, {"speed": 0}).modified_count == 1
assert things.update_one({"_id": "none"}, {"$set": {"speed": 5}}).matched_count == 0

# Several documents.
assert things.update_many({}, {"$set": {"seen": True}}).matched_count == 1001
assert things.count_documents({"seen": True}) == 1001
assert sorted(row["_id"] for row in things.find({"_id": {"$in": [1, 2, 5000]}})) == [1, 2]
assert [row["_id"] for row in things.find({"a": {"$exists": True}})] == [7]
assert len(list(things.find().limit(10))) == 10
assert len(list(things.find().skip(1000))) == 1

# Several statements, some of which fail.
unordered = [
    InsertOne({"_id": "b"}),
    InsertOne({"_id": 1}),
    UpdateOne({"_id": 2}, {"$set": {"bulk": 1}}),
    InsertOne({"_id": 2}),
    DeleteOne({"_id": 3}),
]
details = error(BulkWriteError, lambda: things.bulk_write(unordered, ordered=False)).details
assert (details["nInserted"], details["nModified"], details["nRemoved"]) == (1, 1, 1), details
assert sorted((one["index"], one["code"]) for one in details["writeErrors"]) == [(1, 11000), (3, 11000)], details
details = error(BulkWriteError, lambda: things.insert_many([{"_id": one} for one in ("c", 1, "d", "e")])).details
assert (details["nInserted"], details["writeErrors"][0]["index"]) == (1, 1), details
assert sorted(row["_id"] for row in things.find({"_id": {"$in": ["c", "d", "e"]}})) == ["c"]
assert count() == 1002

# What the store does not know, it says.
assert "$gt" in str(error(OperationFailure, lambda: list(things.find({"speed": {"$gt": 1}}))))
assert "sort" in str(error(OperationFailure, lambda: list(things.find().sort("speed"))))

# Deleting.
assert things.delete_many({"seen": True}).deleted_count == 1000
assert count() == 2
things.drop()
assert count() == 0
